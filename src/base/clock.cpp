// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/clock.hpp"

#include <condition_variable>
#include <mutex>

namespace gpuwarden {
namespace {

class SystemClock final : public Clock {
 public:
  SteadyTime now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }

  bool sleep_for(std::chrono::nanoseconds duration, const std::stop_token& stop) override {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, duration, [] { return false; });
    return !stop.stop_requested();
  }
};

}  // namespace

Clock& system_clock() {
  // Never destroyed: threads sleep on it while the program ends.
  static auto* const clock = new SystemClock();
  return *clock;
}

}  // namespace gpuwarden
