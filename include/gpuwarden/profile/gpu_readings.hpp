// SPDX-License-Identifier: Apache-2.0
// What the GPUs did while an operation ran, from the readings of a sampler that somebody else runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::profile {

/// One GPU at one moment. `utilization` is the mean since the reading before.
struct GpuReading {
  Clock::SteadyTime when{};
  GpuIndex gpu;
  std::optional<Percent> utilization;
  std::optional<Bytes> memory_used;
  std::optional<Milliwatts> power;
  std::optional<Millijoules> energy;  ///< the GPU's own counter

  bool operator==(const GpuReading&) const = default;
};

/// The readings of all usable GPUs of a snapshot that was begun at `when`.
std::vector<GpuReading> readings_of(const facts::Snapshot& snapshot, Clock::SteadyTime when);

/// The GPUs in a span of time; unknown where a GPU does not tell.
struct GpuSpan {
  std::optional<double> joules;       ///< all GPUs together; empty unless every one of them tells
  std::optional<double> utilization;  ///< percent, mean over time and GPUs
  std::optional<Bytes> memory_peak;   ///< of the GPU with most, at the readings in and around the span
};

/// The latest readings of each GPU. Not thread-safe.
class GpuReadings {
 public:
  /// Keeps `capacity` readings of each GPU, at least 2.
  explicit GpuReadings(std::size_t capacity = 4096);

  /// A reading that is not later than the GPU's last one is dropped.
  void add(const GpuReading& reading);
  bool empty() const { return gpus_.empty(); }
  /// Whether every GPU was read at or after `time`, but for those that are gone: that were not read while another one
  /// was three times.
  bool reach(Clock::SteadyTime time) const;
  /// Nothing where a GPU was not read both before (or at) `start` and after (or at) `end`; one that was gone by `start`
  /// does not count, and of one that is gone since the joules are not known. Energy by the difference of
  /// the GPU's counter, between readings linear; else its power by the trapezoidal rule.
  std::optional<GpuSpan> span(Clock::SteadyTime start, Clock::SteadyTime end) const;
  /// All that are kept, GPU by GPU, in the order of time.
  std::vector<GpuReading> all() const;
  void clear() { gpus_.clear(); }

 private:
  bool is_gone(const std::deque<GpuReading>& readings) const;
  std::size_t capacity_;
  std::map<GpuIndex, std::deque<GpuReading>> gpus_;
};

}  // namespace gpuwarden::profile
