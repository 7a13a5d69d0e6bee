// SPDX-License-Identifier: Apache-2.0
// When the readings of a series begin: pure.
#pragma once

#include <algorithm>
#include <chrono>

#include "gpuwarden/base/clock.hpp"

namespace gpuwarden::telemetry {

inline constexpr std::chrono::milliseconds kShortestInterval{100};
inline constexpr std::chrono::milliseconds kLongestInterval = std::chrono::minutes(10);

constexpr std::chrono::milliseconds allowed_interval(std::chrono::milliseconds wish) {
  return std::clamp(wish, kShortestInterval, kLongestInterval);
}

/// The first of start + n * interval that is later than `now`: what was missed is left out, and nothing drifts.
constexpr Clock::SteadyTime next_reading(Clock::SteadyTime start, std::chrono::milliseconds interval,
                                         Clock::SteadyTime now) {
  return start + ((now - start) / interval + 1) * interval;
}

}  // namespace gpuwarden::telemetry
