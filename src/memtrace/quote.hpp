// SPDX-License-Identifier: Apache-2.0
// What a file says, as messages may show it.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::memtrace {

/// Lists and dictionaries in each other, or marks of a pickle, that readers take at most; snapshots have 8.
inline constexpr std::size_t kDeepestNesting = 64;

/// At most 80 bytes of `text` and "..." where there is more; safe to print.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 80;
  return printable(text.substr(0, kShown)) + (text.size() > kShown ? "..." : "");
}

}  // namespace gpuwarden::memtrace
