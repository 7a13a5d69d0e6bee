// SPDX-License-Identifier: Apache-2.0
// llama.cpp's --override-tensor: patterns of tensors' names, each with the buffer that holds them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpuwarden::planning {

/// What "exps=CPU" or "blk\.([0-9]|1[0-9])\.ffn_.*_exps\.=CPU" says in the words of --cpu-moe-layers: "all", or how
/// many of the first layers' experts the CPU keeps. Empty: another pattern, or another buffer.
std::optional<std::string> host_experts_of(std::string_view value);

}  // namespace gpuwarden::planning
