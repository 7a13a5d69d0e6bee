// SPDX-License-Identifier: Apache-2.0
// Time is handed in, so that a test of an hour's waiting takes a millisecond.
#pragma once

#include <chrono>
#include <stop_token>

namespace gpuwarden {

/// Tells the time and waits. Implementations are safe to use from several threads.
class Clock {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;
  using WallTime = std::chrono::system_clock::time_point;

  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  /// Monotonic time, for measuring and deadlines.
  virtual SteadyTime now() const = 0;
  /// Time of day, for records people read.
  virtual WallTime wall_now() const = 0;
  /// Waits for `duration`, or until `stop` is requested; true when the whole duration has passed.
  virtual bool sleep_for(std::chrono::nanoseconds duration, const std::stop_token& stop = {}) = 0;
};

/// The machine's own clock; lives as long as the program.
Clock& system_clock();

}  // namespace gpuwarden
