// SPDX-License-Identifier: Apache-2.0
// Numbers and sizes as people type them, with what is wrong told in a sentence that can stand behind "NAME: ".
#pragma once

#include <cstdint>
#include <string_view>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden {

/// A whole number from 0 to `most`. Fails with invalid_argument.
Result<std::uint32_t> parse_count(std::string_view text, std::uint32_t most);

/// "4", or "2:4": at least 2, at most 4; of "4" both are 4.
struct CountRange {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  bool operator==(const CountRange&) const = default;
};
/// A range begins with 1 or more. Fails with invalid_argument.
Result<CountRange> parse_count_range(std::string_view text, std::uint32_t most);

/// As parse_size(), and a number without a unit that would be less than 1 MiB is refused: "40" is seldom meant as 40
/// bytes. Fails with invalid_argument.
Result<Bytes> parse_meant_size(std::string_view text);

}  // namespace gpuwarden
