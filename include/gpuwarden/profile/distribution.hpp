// SPDX-License-Identifier: Apache-2.0
// Durations summed up in bounded memory, however many there are.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuwarden::profile {

/// What a number of durations comes to. count, total, min and max are exact.
struct Durations {
  std::uint64_t count = 0;
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds min{};
  std::chrono::nanoseconds mean{};
  std::chrono::nanoseconds max{};
  /// The least duration at or below which 95 % of them lie, within 1/32 of its value.
  std::chrono::nanoseconds p95{};

  bool operator==(const Durations&) const = default;
};

/// Counts durations in bins whose width is 1/16 of their value: at most 4 kB. Not thread-safe.
class Distribution {
 public:
  /// Negative durations count as 0.
  void add(std::chrono::nanoseconds duration);
  /// All zero where nothing was added.
  Durations summary() const;

 private:
  std::chrono::nanoseconds at_share(double share) const;
  std::uint64_t count_ = 0;
  std::int64_t total_ = 0;
  std::int64_t min_ = 0;
  std::int64_t max_ = 0;
  std::vector<std::uint32_t> bins_;  ///< up to the greatest that is used; a full bin stays full
};

}  // namespace gpuwarden::profile
