// SPDX-License-Identifier: Apache-2.0
// What was read, kept in memory: a bounded ring. And the shape in which every history answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::telemetry {

using WallTime = std::chrono::system_clock::time_point;

/// A stretch of time, `from` included, `to` not.
struct Window {
  WallTime from{};
  WallTime to{};
};

/// What a metric was in one step of time, in the metric's shown unit (docs/metrics.md). The three are equal where the
/// step holds one reading.
struct Point {
  WallTime time{};  ///< the step's begin
  double min = 0;
  double mean = 0;
  double max = 0;
  unsigned readings = 0;  ///< how many are in it

  bool operator==(const Point&) const = default;
};

/// A metric of one GPU over time, in the metric's shown unit. Steps without a reading are left out: a gap is a gap.
struct Series {
  Uuid uuid;
  std::string metric;
  std::chrono::milliseconds step{};
  std::vector<Point> points;
};

/// A GPU that a history knows.
struct KnownGpu {
  Uuid uuid;
  GpuIndex index;
  std::string name;
};

/// The last readings' metrics, bounded in time: an hour at 1 s for 16 GPUs takes less than 20 MB (metrics that do not
/// change cost nothing). Times are those of the clock that was read last: where it was set forward or back, earlier
/// readings are dated anew by as much. Thread-safe: one writes, many read, and no question keeps the writer waiting.
class History {
 public:
  /// Keeps readings of the last `span`, at most `most` of them.
  explicit History(std::chrono::milliseconds span = std::chrono::hours(1), std::size_t most = 3600);
  History(const History&) = delete;
  History& operator=(const History&) = delete;
  ~History();

  void add(const Reading& reading);
  std::vector<KnownGpu> gpus() const;
  /// A metric (or derived metric) of a GPU over a window, in steps of at least `step`; step 0: as it was read. Fails
  /// with not_found for an unknown GPU, invalid_argument for an unknown metric (with the nearest).
  Result<Series> series(const Uuid& gpu, std::string_view metric, Window window, std::chrono::milliseconds step) const;
  /// The oldest and newest reading; nothing while there is none.
  std::optional<Window> covers() const;
  /// Bytes that its columns take.
  std::size_t footprint() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::telemetry
