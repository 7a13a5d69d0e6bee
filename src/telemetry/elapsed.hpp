// SPDX-License-Identifier: Apache-2.0
// How much time lies between two readings, though the clock was set between them.
#pragma once

#include <chrono>
#include <cstdint>

#include "gpuwarden/base/clock.hpp"

namespace gpuwarden::telemetry {

/// When a reading was made: by the time of day, in milliseconds, and by the clock that nobody sets.
struct ReadingTime {
  std::int64_t day = 0;
  Clock::SteadyTime when{};
};

/// Both in milliseconds.
struct Elapsed {
  std::int64_t passed = 0;  ///< never negative
  std::int64_t set = 0;     ///< by how much the clock was set forward; negative: back
};

/// By the steady clock, where both readings tell it; the time of day is believed as far as it agrees. Without the
/// steady clock a clock that was set back stood still, and one that was set forward cannot be told from time that
/// passed.
inline Elapsed elapsed_between(const ReadingTime& before, const ReadingTime& now) {
  const std::int64_t by_day = now.day - before.day;
  const std::int64_t passed = std::chrono::round<std::chrono::milliseconds>(now.when - before.when).count();
  const bool known = before.when != Clock::SteadyTime{} && now.when > before.when;
  if (!known) return by_day < 0 ? Elapsed{0, by_day} : Elapsed{by_day, 0};
  // A clock that is slewed differs by less than a thousandth, and the two are not read in the same moment.
  const std::int64_t difference = by_day > passed ? by_day - passed : passed - by_day;
  if (by_day >= 0 && difference <= 50 + passed / 100) return {by_day, 0};
  return {passed, by_day - passed};
}

}  // namespace gpuwarden::telemetry
