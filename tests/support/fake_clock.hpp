// SPDX-License-Identifier: Apache-2.0
// A clock that moves only when somebody sleeps on it or advances it.
#pragma once

#include <mutex>

#include "gpuwarden/base/clock.hpp"

namespace gpuwarden::testing {

class FakeClock final : public Clock {
 public:
  SteadyTime now() const override {
    const std::scoped_lock lock(mutex_);
    return SteadyTime(elapsed_);
  }
  WallTime wall_now() const override {
    const std::scoped_lock lock(mutex_);
    return WallTime(std::chrono::seconds(1'700'000'000)) + std::chrono::duration_cast<WallTime::duration>(elapsed_);
  }
  bool sleep_for(std::chrono::nanoseconds duration, const std::stop_token& stop) override {
    if (stop.stop_requested()) return false;
    advance(duration);
    return true;
  }
  void advance(std::chrono::nanoseconds duration) {
    const std::scoped_lock lock(mutex_);
    elapsed_ += duration;
  }

 private:
  mutable std::mutex mutex_;
  std::chrono::nanoseconds elapsed_{0};
};

}  // namespace gpuwarden::testing
