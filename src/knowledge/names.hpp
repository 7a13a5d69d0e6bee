// SPDX-License-Identifier: Apache-2.0
// Names of GPUs as drivers and people write them.
#pragma once

#include <string_view>

namespace gpuwarden::knowledge {

/// "H100 PCIe" of "NVIDIA H100 PCIe": old drivers and people leave the maker out.
inline std::string_view without_maker(std::string_view name) {
  constexpr std::string_view kMaker = "NVIDIA ";
  if (name.starts_with(kMaker)) name.remove_prefix(kMaker.size());
  return name;
}

}  // namespace gpuwarden::knowledge
