// SPDX-License-Identifier: Apache-2.0
// A synthetic log of a training job, as large as is asked for.
#pragma once

#include <cstdint>
#include <string>

namespace gpuwarden::bench {

/// Ordinary lines as torchrun, Megatron, the Hugging Face trainer, DeepSpeed, NCCL and a kernel write them, some
/// warnings and tracebacks among them, and one GPU failure in about `rarity` lines. The same for the same arguments.
/// Returns how many failures it wrote; -1 where the file cannot be written.
std::int64_t write_log(const std::string& path, std::uint64_t bytes, std::uint64_t rarity);

}  // namespace gpuwarden::bench
