// SPDX-License-Identifier: Apache-2.0
// What ran when, as a file that Perfetto and chrome://tracing open.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/profile/gpu_readings.hpp"

namespace gpuwarden::profile {

/// One operation that has ended.
struct Event {
  std::string name;
  Clock::SteadyTime start{};
  std::chrono::nanoseconds wall{};
  std::int64_t thread = 0;  ///< the kernel's number
  unsigned depth = 0;       ///< operations of this thread that were open when it began
  std::optional<std::chrono::nanoseconds> device;

  bool operator==(const Event&) const = default;
};

/// Everything that is kept of a stretch of time.
struct Trace {
  std::int64_t process = 0;
  /// One moment on both clocks.
  Clock::SteadyTime steady_origin{};
  Clock::WallTime wall_origin{};
  std::vector<Event> events;  ///< in the order in which they ended
  std::vector<GpuReading> readings;
  std::uint64_t dropped = 0;  ///< older events that were not kept
};

/// A trace that is larger is not read.
inline constexpr std::size_t kLargestForeignTrace = std::size_t{256} << 20U;

/// Chrome's trace format: an object with traceEvents. `foreign` is a trace of torch.profiler (Kineto's object, or the
/// bare list of PyTorch 1.13), whose events are put on the same clock; where it does not say when it began
/// (baseTimeNanoseconds), its times are taken as microseconds since 1970, or, below the year 2001, as beginning with
/// the first operation. Operations of a thread that overlap without nesting are put on rows of their own. Fails with
/// corrupt on a foreign trace that is none, with invalid_argument beyond kLargestForeignTrace.
Result<std::string> chrome_trace(const Trace& trace, std::string_view foreign = {});

}  // namespace gpuwarden::profile
