// SPDX-License-Identifier: Apache-2.0
// Time for counters that are read seldom: the processor's time stamp where it has one, at a third of a clock call's
// price, turned into nanoseconds only when somebody asks.
#pragma once

#include <chrono>
#include <cstdint>

namespace gpuwarden::memory {

/// Ticks of a steady counter whose rate TickScale finds out.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Measures the rate of ticks() from its construction on.
class TickScale {
 public:
  /// How long so many ticks are, by the rate since construction.
  std::uint64_t nanoseconds(std::uint64_t count) const {
    const auto passed = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start_).count();
    const std::uint64_t counted = ticks() - start_ticks_;
    if (counted == 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(count) * passed / static_cast<double>(counted));
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t start_ticks_ = ticks();
};

}  // namespace gpuwarden::memory
