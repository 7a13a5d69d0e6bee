// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/version.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {

namespace {

constexpr int kMostDigits = 9;
/// No toolkit or package has had such a major number, every driver since 2007 has.
constexpr int kFirstDriver = 100;
/// Jetson Linux 36 (source: its release notes); no other driver is of this branch.
constexpr int kJetsonBranch = 540;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<Version> Version::parse(std::string_view text) {
  if (text.starts_with('v') || text.starts_with('V')) text.remove_prefix(1);
  std::array<int, 4> parts{};
  std::size_t at = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    int digits = 0;
    for (; at < text.size() && is_digit(text[at]); ++at, ++digits) {
      if (digits == kMostDigits) return std::nullopt;
      parts[part] = parts[part] * 10 + (text[at] - '0');
    }
    if (digits == 0 && part == 0) return std::nullopt;
    if (at + 1 >= text.size() || text[at] != '.' || !is_digit(text[at + 1])) break;
    ++at;
  }
  return Version{parts[0], parts[1], parts[2], parts[3]};
}

Result<Version> read_version(std::string_view text) {
  const auto version =
      text.find_first_not_of("0123456789.") == std::string_view::npos ? Version::parse(text) : std::nullopt;
  if (version) return *version;
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a version", printable(text)), "for example 12.8");
}

std::string to_string(const Version& version) {
  // Jetson's, of JetPack 6: "540.4.0".
  if (version.major == kJetsonBranch) return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
  // Drivers, whose third number is written with two digits.
  if (version.major >= kFirstDriver) {
    if (version.patch != 0) return fmt::format("{}.{:02}.{:02}", version.major, version.minor, version.patch);
    return version.minor == 0 ? fmt::format("{}", version.major)
                              : fmt::format("{}.{:02}", version.major, version.minor);
  }
  if (version.build != 0) return fmt::format("{}.{}.{}.{}", version.major, version.minor, version.patch, version.build);
  if (version.patch != 0) return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
  return fmt::format("{}.{}", version.major, version.minor);
}

Version release_of(const Version& version) { return {version.major, version.minor, 0, 0}; }

}  // namespace gpuwarden::knowledge
