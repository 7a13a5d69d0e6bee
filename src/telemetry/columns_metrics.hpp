// SPDX-License-Identifier: Apache-2.0
// Between metrics and columns: what number a metric's value is there, and how a reading is made again from a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/telemetry/history.hpp"
#include "gpuwarden/telemetry/variables.hpp"
#include "telemetry/columns.hpp"

namespace gpuwarden::telemetry {

/// A metric and how its columns hold it.
struct MetricColumn {
  std::uint32_t id = 0;                   ///< its number in frames
  const facts::Metric* metric = nullptr;  ///< nullptr: a metric of another gpuwarden's table
  double scale = 1;                       ///< steps in a column for one of the shown unit
};

/// How many of a metric's own steps make one of its shown unit: 1000 for power, which is kept in milliwatts.
double steps_per_unit(const facts::Metric& metric);

/// The metric's value as a column has it; kGap where it is unknown or no number.
std::int64_t to_column(const MetricColumn& column, const facts::GpuSample& sample);

/// What a series is made of: one metric, or a derived one and those that it is computed from.
struct SeriesSource {
  const DerivedMetric* derived = nullptr;
  std::vector<MetricColumn> inputs;
};
/// By id, out of the columns that there are. Fails with invalid_argument for what is no metric, with the nearest.
Result<SeriesSource> series_source(std::string_view metric, const std::vector<MetricColumn>& columns);

/// Gathers points, which come in order, in steps: each is put into the step in which it begins.
class SeriesBuilder {
 public:
  /// `step` 0: points stay as they are. Points before `from` or not before `to` are left out (milliseconds).
  SeriesBuilder(std::int64_t from, std::int64_t to, std::int64_t step) : from_(from), to_(to), step_(step) {}
  void add(std::int64_t time, const Point& values);
  /// Takes points of another stretch from now on; steps go on.
  void look_at(std::int64_t from, std::int64_t to) {
    from_ = from;
    to_ = to;
  }
  std::int64_t from() const { return from_; }
  std::int64_t to() const { return to_; }
  Series finish(const Uuid& gpu, std::string_view metric) const;

 private:
  struct Step {
    std::int64_t time = 0;
    double min = 0;
    double max = 0;
    double sum = 0;
    double readings = 0;
  };
  std::int64_t from_;
  std::int64_t to_;
  std::int64_t step_;
  std::vector<Step> steps_;
};

/// Adds a frame's rows to a series; times are `shift` milliseconds later than the frame has them. `gpu` is what derived
/// metrics are told of the GPU.
void add_rows(SeriesBuilder& series, const Frame& frame, std::int64_t shift, const SeriesSource& source,
              const facts::Gpu& gpu);

/// Milliseconds since the epoch, rounded down, and back.
std::int64_t to_millis(WallTime time);
WallTime from_millis(std::int64_t millis);
/// The greatest multiple of step (> 0) that is not above `value`.
std::int64_t floor_to(std::int64_t value, std::int64_t step);

}  // namespace gpuwarden::telemetry
