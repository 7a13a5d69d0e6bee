// SPDX-License-Identifier: Apache-2.0
// Numbers of GPUs as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuwarden::facts {

/// "0-3, 6": ascending, each once; empty for none.
std::string index_ranges(std::vector<std::uint32_t> indices);
/// "GPU 3", "GPUs 0-3, 6"; "no GPU" for none.
std::string name_gpus(const std::vector<std::uint32_t>& indices);

}  // namespace gpuwarden::facts
