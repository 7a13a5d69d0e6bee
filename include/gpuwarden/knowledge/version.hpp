// SPDX-License-Identifier: Apache-2.0
// Version numbers as drivers, toolkits and packages have them.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::knowledge {

/// Up to four numbers: 550.54.15, 12.4.131, 2.5.1. All zero: not known. Ordered number by number.
struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;
  int build = 0;

  auto operator<=>(const Version&) const = default;
  constexpr explicit operator bool() const { return major != 0 || minor != 0 || patch != 0 || build != 0; }

  /// Reads the leading numbers of "2.5.1+cu124", "0.6.3.post1", "v12.4", "535.183.01-1~deb12u1"; empty where there is
  /// none, or a number is beyond nine digits.
  static std::optional<Version> parse(std::string_view text);
};

/// A version and nothing else: "12.8". Of "12.8beta" the beginning would be another version than what was asked for.
/// Fails with invalid_argument.
Result<Version> read_version(std::string_view text);

/// "12.4" of 12.4.0; trailing zeros beyond two numbers are left out. Drivers as NVIDIA writes them: "580.65.06", "580".
std::string to_string(const Version& version);
/// "12.4": the first two numbers alone.
Version release_of(const Version& version);

}  // namespace gpuwarden::knowledge
