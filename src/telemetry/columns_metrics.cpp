// SPDX-License-Identifier: Apache-2.0
#include "telemetry/columns_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::telemetry {
namespace {

/// Where a frame's columns of one metric are; nullptr where it has none.
struct MetricParts {
  const MetricColumn* column = nullptr;
  std::array<const std::vector<std::int64_t>*, 4> parts{};
};

MetricParts parts_of(const Frame& frame, const MetricColumn& column) {
  MetricParts result{&column, {}};
  for (std::uint32_t part = 0; part < 4; ++part) {
    const auto found = frame.columns.find({column.id, static_cast<Part>(part)});
    if (found != frame.columns.end()) result.parts[part] = &found->second;
  }
  return result;
}

std::int64_t cell(const MetricParts& parts, Part part, std::size_t row) {
  const auto* const values = parts.parts[static_cast<std::size_t>(part)];
  return values == nullptr || row >= values->size() ? codec::kGap : (*values)[row];
}

/// A row's point in the shown unit; in doubles, so that no column of anybody's overflows.
std::optional<Point> point_of(const MetricParts& parts, std::size_t row) {
  const std::int64_t least = cell(parts, Part::value, row);
  if (least == codec::kGap) return std::nullopt;
  const auto least_value = static_cast<double>(least);
  const std::int64_t mean = cell(parts, Part::mean, row);
  const std::int64_t spread = cell(parts, Part::spread, row);
  const std::int64_t count = cell(parts, Part::count, row);
  const double range = spread == codec::kGap ? 0 : std::max(static_cast<double>(spread), 0.0);
  const double above = mean == codec::kGap ? 0 : std::clamp(static_cast<double>(mean) / kMeanSteps, 0.0, range);
  Point point;
  point.min = least_value / parts.column->scale;
  point.mean = (least_value + above) / parts.column->scale;
  point.max = (least_value + range) / parts.column->scale;
  point.readings = static_cast<unsigned>(std::clamp<std::int64_t>(count, 1, 1'000'000'000));
  return point;
}

/// set_value() rounds to integers: what no integer can be stays unknown.
void set_field(const facts::Metric& metric, facts::GpuSample& sample, double value) {
  if (value >= metric.range.low && value <= metric.range.high) facts::set_value(metric, sample, value);
}

/// Computes a derived metric row by row. That of a step is computed from mean values, and its bounds from the least and
/// the greatest ones: exact for single readings, near for steps.
class DerivedRows {
 public:
  DerivedRows(const SeriesSource& source, const facts::Gpu& gpu) : source_(source) {
    for (facts::GpuRecord* const record : {&least_, &mean_, &greatest_}) record->gpu = gpu;
  }

  std::optional<Point> point(const std::vector<MetricParts>& parts, std::size_t row) {
    unsigned readings = 0;
    bool is_single = true;
    for (const MetricParts& metric : parts) {
      const auto point = point_of(metric, row);
      // Nothing else is in the records, so that nothing else has to be emptied.
      for (facts::GpuRecord* const record : {&least_, &mean_, &greatest_})
        facts::set_value(*metric.column->metric, record->sample, std::nullopt);
      if (!point) continue;
      readings = std::max(readings, point->readings);
      is_single = is_single && point->min == point->max;
      set_field(*metric.column->metric, mean_.sample, point->mean);
      // Single readings have no bounds of their own.
      if (metric.parts[static_cast<std::size_t>(Part::count)] == nullptr) continue;
      set_field(*metric.column->metric, least_.sample, point->min);
      set_field(*metric.column->metric, greatest_.sample, point->max);
    }
    const auto mean = readings == 0 ? std::nullopt : source_.derived->value(mean_);
    if (!mean || !std::isfinite(*mean)) return std::nullopt;
    Point result{.time = {}, .min = *mean, .mean = *mean, .max = *mean, .readings = readings};
    if (is_single) return result;
    for (const facts::GpuRecord* const record : {&least_, &greatest_}) {
      const double bound = source_.derived->value(*record).value_or(*mean);
      result.min = std::min(result.min, bound);
      result.max = std::max(result.max, bound);
    }
    return result;
  }

 private:
  const SeriesSource& source_;
  facts::GpuRecord least_;
  facts::GpuRecord mean_;
  facts::GpuRecord greatest_;
};

}  // namespace

double steps_per_unit(const facts::Metric& metric) {
  return std::visit([]<class Unit>(std::optional<Unit> facts::GpuSample::*) { return kStepsPerShownUnit<Unit>; },
                    metric.field);
}

std::int64_t to_column(const MetricColumn& column, const facts::GpuSample& sample) {
  const auto value = facts::value_of(*column.metric, sample);
  if (!value) return codec::kGap;
  const double steps = *value * column.scale;
  // 2^62: what is beyond is no reading of anything.
  if (!(std::abs(steps) < 4.6e18)) return codec::kGap;
  return std::llround(steps);
}

Result<SeriesSource> series_source(std::string_view metric, const std::vector<MetricColumn>& columns) {
  const auto* const known = facts::find_metric(metric);
  if (known != nullptr) {
    SeriesSource source;
    std::ranges::copy_if(columns, std::back_inserter(source.inputs),
                         [&](const MetricColumn& column) { return column.metric == known; });
    return source;
  }
  if (const auto* const derived = find_derived_metric(metric); derived != nullptr) {
    SeriesSource source{.derived = derived, .inputs = {}};
    std::ranges::copy_if(columns, std::back_inserter(source.inputs), [&](const MetricColumn& column) {
      return column.metric != nullptr && std::ranges::find(derived->inputs, column.metric->id) != derived->inputs.end();
    });
    return source;
  }
  std::vector<std::string> names;
  for (const facts::Metric& row : facts::metrics()) names.emplace_back(row.id);
  for (const DerivedMetric& row : derived_metrics()) names.emplace_back(row.id);
  const std::string nearest = closest_match(metric, names);
  return fail(ErrorCode::invalid_argument, fmt::format("unknown metric '{}'", printable(metric)),
              nearest.empty() ? "docs/metrics.md lists the metrics" : fmt::format("did you mean '{}'?", nearest));
}

void SeriesBuilder::add(std::int64_t time, const Point& values) {
  if (time < from_ || time >= to_) return;
  const std::int64_t begin = step_ > 0 ? floor_to(time, step_) : time;
  // Out of order comes only from a file that nobody wrote so.
  if (!steps_.empty() && begin < steps_.back().time) return;
  const auto readings = static_cast<double>(values.readings);
  if (steps_.empty() || steps_.back().time != begin || step_ == 0) {
    steps_.push_back({begin, values.min, values.max, values.mean * readings, readings});
    return;
  }
  Step& step = steps_.back();
  step.min = std::min(step.min, values.min);
  step.max = std::max(step.max, values.max);
  step.sum += values.mean * readings;
  step.readings += readings;
}

Series SeriesBuilder::finish(const Uuid& gpu, std::string_view metric) const {
  Series series{.uuid = gpu, .metric = std::string(metric), .step = std::chrono::milliseconds(step_), .points = {}};
  series.points.reserve(steps_.size());
  for (const Step& step : steps_) {
    const double mean = step.min == step.max ? step.min : std::clamp(step.sum / step.readings, step.min, step.max);
    const double readings = std::min(step.readings, static_cast<double>(std::numeric_limits<unsigned>::max()));
    series.points.push_back({from_millis(step.time), step.min, mean, step.max, static_cast<unsigned>(readings)});
  }
  return series;
}

void add_rows(SeriesBuilder& series, const Frame& frame, std::int64_t shift, const SeriesSource& source,
              const facts::Gpu& gpu) {
  std::vector<MetricParts> parts;
  for (const MetricColumn& column : source.inputs) parts.push_back(parts_of(frame, column));
  if (parts.empty()) return;
  DerivedRows derived(source, gpu);
  for (std::size_t row = 0; row < frame.times.size(); ++row) {
    const std::int64_t time = frame.times[row] + shift;
    if (time < series.from() || time >= series.to()) continue;
    const auto point = source.derived == nullptr ? point_of(parts.front(), row) : derived.point(parts, row);
    if (point) series.add(time, *point);
  }
}

std::int64_t to_millis(WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

WallTime from_millis(std::int64_t millis) {
  // What a time of day can hold: about 292 years from 1970, either way.
  constexpr std::int64_t kMost =
      std::chrono::duration_cast<std::chrono::milliseconds>(WallTime::duration::max()).count();
  return WallTime(std::chrono::milliseconds(std::clamp(millis, -kMost, kMost)));
}

std::int64_t floor_to(std::int64_t value, std::int64_t step) {
  const std::int64_t rest = value % step;
  return value - (rest < 0 ? rest + step : rest);
}

}  // namespace gpuwarden::telemetry
