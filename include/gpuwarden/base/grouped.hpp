// SPDX-License-Identifier: Apache-2.0
// Long numbers for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace gpuwarden {

/// "14,961".
inline std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

}  // namespace gpuwarden
