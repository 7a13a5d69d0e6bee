// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/indices.hpp"

#include <algorithm>

namespace gpuwarden::facts {

std::string index_ranges(std::vector<std::uint32_t> indices) {
  std::ranges::sort(indices);
  const auto repeated = std::ranges::unique(indices);
  indices.erase(repeated.begin(), repeated.end());
  std::string text;
  for (std::size_t first = 0; first < indices.size();) {
    std::size_t last = first;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(indices[first]);
    if (last > first) text += "-" + std::to_string(indices[last]);
    first = last + 1;
  }
  return text;
}

std::string name_gpus(const std::vector<std::uint32_t>& indices) {
  if (indices.empty()) return "no GPU";
  const std::string ranges = index_ranges(indices);
  return (ranges.find_first_of("-,") == std::string::npos ? "GPU " : "GPUs ") + ranges;
}

}  // namespace gpuwarden::facts
