// SPDX-License-Identifier: Apache-2.0
// Names of GPUs as drivers and people write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::knowledge {

/// "H100 PCIe" of "NVIDIA H100 PCIe": old drivers and people leave the maker out.
inline std::string_view without_maker(std::string_view name) {
  constexpr std::string_view kMaker = "NVIDIA ";
  if (name.starts_with(kMaker)) name.remove_prefix(kMaker.size());
  return name;
}

/// Letters and digits in one piece, in small letters; "A100-SXM4-80GB" has three.
std::vector<std::string> words_of(std::string_view text);

}  // namespace gpuwarden::knowledge
