// SPDX-License-Identifier: Apache-2.0
// Measures named operations of a program while it runs: how often, how long, how long on the GPU, and what the GPUs
// did meanwhile.
//
//     {
//       const auto scope = profile::profile_operation("inference");
//       run(model);
//     }
//     for (const auto& operation : profile::default_profiler().results()) ...
//
// Thread-safe throughout. A forked child's profilers are off: what they hold belongs to the parent.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/profile/device_timer.hpp"
#include "gpuwarden/profile/distribution.hpp"
#include "gpuwarden/profile/gpu_readings.hpp"
#include "gpuwarden/profile/ranges.hpp"
#include "gpuwarden/profile/trace.hpp"

namespace gpuwarden::profile {

/// Operations beyond ProfilerOptions::max_names are summed up under this name.
inline constexpr std::string_view kOtherNames = "(other operations)";

struct ProfilerOptions {
  bool enabled = true;
  std::size_t max_names = 4096;
  std::size_t max_events = 100'000;     ///< the latest so many are kept for the trace
  std::size_t max_readings = 4096;      ///< of each GPU
  std::shared_ptr<DeviceTimer> device;  ///< empty: no device time
  std::shared_ptr<Ranges> ranges;       ///< empty: no NVTX
  /// Bytes that the program has allocated on its GPU now; empty: memory is not followed. Must not throw.
  std::function<std::optional<Bytes>()> memory;
  Clock* clock = &system_clock();
};

/// All runs of the operation of one name.
struct Operation {
  std::string name;
  Durations wall;
  std::chrono::nanoseconds self{};  ///< wall time without that of operations within it on the same thread
  std::optional<Durations> device;  ///< runs whose device time is known
  /// From the readings that were heard, for `told` of the runs. Of the GPUs while the operation ran: operations that
  /// run at once have the same joules each.
  std::uint64_t told = 0;
  std::optional<double> joules;
  std::optional<double> utilization;  ///< percent, mean over the time of these runs
  std::optional<Bytes> memory_peak;
  std::optional<std::int64_t> memory_change;  ///< bytes that were allocated more after a run than before it; all runs
};
/// As docs/json.md has it: seconds, joules, percent, bytes; unknown is null.
nlohmann::json to_json(const Operation& operation);
nlohmann::json to_json(std::span<const Operation> operations);

class Scope;

/// Sums up operations. Must outlive its scopes.
class Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  ~Profiler();

  /// Off, a scope costs a look at a flag. Scopes that are open are finished.
  void set_enabled(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }
  bool enabled() const {
    return enabled_.load(std::memory_order_relaxed) && generation_ == forks().load(std::memory_order_relaxed);
  }
  /// What times operations on the device, and what is told of them, from now on; empty: nothing.
  void set_device(std::shared_ptr<DeviceTimer> device);
  void set_ranges(std::shared_ptr<Ranges> ranges);
  void set_memory(std::function<std::optional<Bytes>()> memory);

  /// Readings of a sampler, in the order of time.
  void hear(std::span<const GpuReading> readings);

  /// By name; those with most wall time first. Waits for device times that are not known yet. Empty in a forked child.
  std::vector<Operation> results();
  /// What is kept for a trace. Waits as results() does.
  Trace trace();
  /// Forgets all that was measured; scopes that are open count when they end.
  void reset();

 private:
  friend class Scope;
  struct Impl;
  struct Entry;        ///< what is known of one name
  struct Instruments;  ///< device, ranges and memory as they were set last
  /// Counts the forks that led to this process.
  static const std::atomic<unsigned>& forks();

  std::atomic<bool> enabled_;
  unsigned generation_;
  std::unique_ptr<Impl> impl_;
};

/// The profiler that profile_operation() uses; on from the start, lives as long as the program.
Profiler& default_profiler();

/// One run of an operation, from here to the end of the scope. May end on another thread; it is then not counted as
/// within another one.
class Scope {
 public:
  /// `stream`: the GPU's stream whose work is timed.
  explicit Scope(std::string_view name, Profiler& profiler = default_profiler(), DeviceTimer::StreamHandle stream = 0) {
    if (profiler.enabled()) begin(name, profiler, stream);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { end(); }
  /// Ends it before the scope does; the second call does nothing.
  void end() {
    if (profiler_ != nullptr) finish();
  }

 private:
  void begin(std::string_view name, Profiler& profiler, DeviceTimer::StreamHandle stream);
  void finish();

  Profiler* profiler_ = nullptr;  ///< empty: off, or ended
  Profiler::Entry* entry_ = nullptr;
  std::shared_ptr<const Profiler::Instruments> instruments_;  ///< as they were when it began
  std::uint64_t number_ = 0;
  Clock::SteadyTime start_{};
  unsigned depth_ = 0;
  DeviceTimer::StreamHandle stream_ = 0;
  DeviceTimer::Mark mark_ = 0;
  std::uint64_t range_ = 0;
  std::optional<Bytes> memory_;
};

/// A scope of the default profiler.
[[nodiscard]] inline Scope profile_operation(std::string_view name) { return Scope(name); }

}  // namespace gpuwarden::profile
