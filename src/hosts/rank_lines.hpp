// SPDX-License-Identifier: Apache-2.0
// Whose lines they are: what launch::run_job writes, taken apart again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::hosts {

struct RankText {
  std::optional<std::uint32_t> rank;
  std::string text;
  bool operator==(const RankText&) const = default;
};

/// Cuts a stream at "[rank N] ", behind which run_job writes each line of several ranks. What one rank alone writes
/// goes through as it is.
class RankLines {
 public:
  /// The ranks that write from here on; `alone`: there is one, which has no prefix.
  void begin(std::optional<std::uint32_t> alone) { alone_ = alone; }
  std::vector<RankText> add(std::string_view text);
  /// What is left of an unfinished line.
  std::vector<RankText> finish();

 private:
  void add_line(std::string_view line, std::vector<RankText>& texts) const;
  std::optional<std::uint32_t> alone_;
  std::string kept_;
};

}  // namespace gpuwarden::hosts
