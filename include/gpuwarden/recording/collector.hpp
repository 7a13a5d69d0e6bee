// SPDX-License-Identifier: Apache-2.0
// Collects readings in memory as a recording, however long it goes on. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/recording/recording.hpp"
#include "gpuwarden/recording/watch.hpp"

namespace gpuwarden::recording {

/// A series that never has more than `most` points: where it is full, each two become one, and so does what comes
/// after. Least, mean and most stay what they were.
class ThinSeries {
 public:
  explicit ThinSeries(std::size_t most) : most_(most) {}
  void add(telemetry::WallTime time, double value);
  /// Points in time's order, the last one perhaps of fewer readings.
  std::vector<telemetry::Point> points() const;
  std::size_t readings_in_a_point() const { return stride_; }

 private:
  void halve();

  std::size_t most_;
  std::size_t stride_ = 1;
  std::vector<telemetry::Point> points_;
};

/// What a reading is about: one that was made beside a job tells energy and power, and nothing of what the job did.
enum class Moment { during_job, around_job };

class Collector {
 public:
  static constexpr std::size_t kMostPoints = 4096;
  /// `interval`: the time between readings, where it is known.
  explicit Collector(std::chrono::milliseconds interval = {}, std::size_t most_points = kMostPoints);

  /// A reading of one GPU, which may be asked for under another name than the record's (a MIG instance's).
  void add(const facts::GpuRecord& record, const Uuid& as, telemetry::WallTime time,
           Moment moment = Moment::during_job);
  /// The GPU as it was collected; nothing where no reading of it was added.
  std::optional<GpuHistory> history(const Uuid& gpu) const;
  /// All of them, by index, from the first reading to the last.
  Recording recording() const;

 private:
  struct Track {
    telemetry::KnownGpu gpu;
    std::map<std::string, ThinSeries, std::less<>> series;
    ThrottleMeter throttling;
  };
  ThinSeries& series_of(Track& track, std::string_view metric) const;
  GpuHistory history_of(const Track& track) const;

  std::chrono::milliseconds interval_;
  std::size_t most_points_;
  std::map<Uuid, Track> tracks_;
  std::optional<telemetry::Window> window_;
};

}  // namespace gpuwarden::recording
