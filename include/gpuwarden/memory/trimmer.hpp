// SPDX-License-Identifier: Apache-2.0
// Gives back in the background what a pool has not needed for a while.
//
//   Trimmer trimmer(*pool, system_clock(), {.interval = 1s, .idle_for = 10s, .keep = 1_GiB});
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden::memory {

struct TrimmerConfig {
  std::chrono::nanoseconds interval = std::chrono::seconds(1);
  /// What was not needed for so long goes back.
  std::chrono::nanoseconds idle_for = std::chrono::seconds(10);
  /// So much physical memory stays in any case (low-water mark).
  Bytes keep;
};

/// A thread that calls Pool::trim_idle at each interval. Its end waits for one slice at most. Pool and clock must
/// outlive it.
class Trimmer {
 public:
  Trimmer(Pool& pool, Clock& clock, TrimmerConfig config);
  Trimmer(const Trimmer&) = delete;
  Trimmer& operator=(const Trimmer&) = delete;
  ~Trimmer();

  /// Given back so far.
  Bytes returned() const { return Bytes(returned_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<std::uint64_t> returned_ = 0;
  const pid_t process_;
  std::jthread thread_;
};

}  // namespace gpuwarden::memory
