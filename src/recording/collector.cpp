// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/collector.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::recording {
namespace {

using std::chrono::milliseconds;
using telemetry::Point;
using telemetry::WallTime;

/// What a reading tells of a GPU whether a job runs or not.
constexpr auto kAroundMetrics = std::to_array<std::string_view>({"energy", "memory_total", "power_limit"});

constexpr double kMilli = 1000;

Point joined(const Point& a, const Point& b) {
  Point sum{a.time, std::min(a.min, b.min), 0, std::max(a.max, b.max), a.readings + b.readings};
  sum.mean = (a.mean * a.readings + b.mean * b.readings) / sum.readings;
  return sum;
}

}  // namespace

void ThinSeries::add(WallTime time, double value) {
  const Point point{time, value, value, value, 1};
  if (!points_.empty() && points_.back().readings < stride_) {
    points_.back() = joined(points_.back(), point);
    return;
  }
  if (points_.size() >= most_) halve();
  if (!points_.empty() && points_.back().readings < stride_)
    points_.back() = joined(points_.back(), point);
  else
    points_.push_back(point);
}

void ThinSeries::halve() {
  std::vector<Point> halved;
  for (std::size_t i = 0; i < points_.size(); i += 2)
    halved.push_back(i + 1 < points_.size() ? joined(points_[i], points_[i + 1]) : points_[i]);
  points_ = std::move(halved);
  stride_ *= 2;
}

std::vector<Point> ThinSeries::points() const { return points_; }

Collector::Collector(milliseconds interval, std::size_t most_points)
    : interval_(interval), most_points_(std::max<std::size_t>(most_points, 2)) {}

void Collector::add(const facts::GpuRecord& record, const Uuid& as, WallTime time, Moment moment) {
  // As a file keeps it: what is told at the end and what the file tells later must not differ.
  const WallTime at = std::chrono::floor<milliseconds>(time);
  if (!window_) window_ = telemetry::Window{at, at};
  window_->to = std::max(window_->to, at);
  const auto [entry, first] = tracks_.try_emplace(as);
  Track& track = entry->second;
  if (first || !record.gpu.name.empty()) track.gpu = {as, record.gpu.index, record.gpu.name};
  const bool usable = facts::is_usable(record);
  const bool during = moment == Moment::during_job;
  // A reading is not for ever: after a hole nobody knows what held in it.
  const milliseconds longest = interval_ > milliseconds(0) ? 3 * interval_ : milliseconds::max();
  track.throttling.add(at, usable && during ? record.sample.throttle_reasons : std::nullopt, longest);
  if (!usable) return;
  const auto metrics = during ? tracked_metrics() : std::span<const std::string_view>(kAroundMetrics);
  for (const std::string_view id : metrics) {
    const facts::Metric* metric = facts::find_metric(id);
    const auto value = metric == nullptr ? std::nullopt : facts::value_of(*metric, record.sample);
    if (value) series_of(track, id).add(at, *value);
  }
  if (record.sample.power)
    series_of(track, kPowerForEnergy).add(at, static_cast<double>(record.sample.power->value) / kMilli);
}

ThinSeries& Collector::series_of(Track& track, std::string_view metric) const {
  return track.series.try_emplace(std::string(metric), most_points_).first->second;
}

GpuHistory Collector::history_of(const Track& track) const {
  GpuHistory history{.gpu = track.gpu, .series = {}, .throttling = track.throttling.times()};
  for (const auto& [metric, series] : track.series) {
    telemetry::Series shown{.uuid = track.gpu.uuid, .metric = metric, .step = {}, .points = series.points()};
    // Readings as they came have no step.
    if (series.readings_in_a_point() > 1) shown.step = usual_step(shown.points);
    history.series.emplace(metric, std::move(shown));
  }
  return history;
}

std::optional<GpuHistory> Collector::history(const Uuid& gpu) const {
  const auto found = tracks_.find(gpu);
  return found == tracks_.end() ? std::nullopt : std::optional(history_of(found->second));
}

Recording Collector::recording() const {
  Recording recording;
  recording.info.interval = interval_;
  recording.window = window_.value_or(telemetry::Window{});
  for (const auto& [uuid, track] : tracks_) recording.gpus.push_back(history_of(track));
  std::ranges::stable_sort(recording.gpus, {}, [](const GpuHistory& gpu) { return gpu.gpu.index; });
  return recording;
}

}  // namespace gpuwarden::recording
