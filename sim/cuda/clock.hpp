// SPDX-License-Identifier: Apache-2.0
// The time that simulated work and driver calls take: the machine's own, or, for tests, a clock that moves only when
// somebody waits or says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace gpuwarden::cuda::server {

/// A moment in nanoseconds of this process's device clock.
using Moment = std::int64_t;

/// Safe to use from several threads.
class DeviceClock {
 public:
  Moment now() const;
  /// Keeps the caller until then; a manual clock jumps there instead.
  void wait_until(Moment moment);
  /// Keeps the caller for that long, exact to a fraction of a microsecond: sleeping would be far coarser.
  void spend(double nanoseconds);

  /// From here on time passes only in wait_until(), spend() and advance().
  void make_manual(bool manual);
  void advance(std::int64_t nanoseconds) { manual_now_.fetch_add(nanoseconds); }

 private:
  std::atomic<bool> manual_ = false;
  std::atomic<Moment> manual_now_ = 0;
};

/// How long calls and copies take. Factor 1 is as published, 0 switches all of it off.
class Latencies {
 public:
  void set_factor(double factor) { factor_.store(factor); }
  double factor() const { return factor_.load(); }
  /// What a call of a function costs its caller, in nanoseconds; `mebibytes` where the price grows with the size,
  /// `pieces` of memory where it grows with their number.
  double of_call(const char* function, double mebibytes, double pieces = 1) const;
  /// How long the device works on so many bytes, in nanoseconds.
  std::int64_t of_bytes(std::uint64_t bytes, double bytes_per_second) const;

 private:
  std::atomic<double> factor_ = 1;
};

}  // namespace gpuwarden::cuda::server
