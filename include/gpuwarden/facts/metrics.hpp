// SPDX-License-Identifier: Apache-2.0
// The metric table: the one place that names a metric. JSON, columns, history, alerts and exports come from it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::facts {

enum class MetricKind { gauge, counter };

/// The field of GpuSample that holds a metric, with its unit as type.
using MetricField = std::variant<std::optional<Percent> GpuSample::*, std::optional<Bytes> GpuSample::*,
                                 std::optional<Celsius> GpuSample::*, std::optional<Milliwatts> GpuSample::*,
                                 std::optional<Megahertz> GpuSample::*, std::optional<Millijoules> GpuSample::*,
                                 std::optional<Share> GpuSample::*, std::optional<Microseconds> GpuSample::*,
                                 std::optional<BytesPerSecond> GpuSample::*, std::optional<Count> GpuSample::*>;

/// Both ends included, in the shown unit.
struct Range {
  double low = 0;
  double high = 0;
};

/// One metric. Values are read and written in the unit of its JSON key: bytes, watts, joules, Celsius, percent,
/// megahertz, or a plain number.
struct Metric {
  MetricField field;
  std::string_view id;          ///< "power"
  std::string_view json_path;   ///< "power_watts", "memory.used_bytes": a dot opens an object
  std::string_view prometheus;  ///< "gpuwarden_gpu_power_watts"
  std::string_view unit;        ///< "W", "%", "B", "B/s", "°C", "MHz", "J", "s", ""
  MetricKind kind = MetricKind::gauge;
  std::string_view help;      ///< one sentence
  std::string_view source;    ///< the NVML function it is read with, and its field after a colon
  Range range;                ///< what a reading can be; anything else is a reading's fault
  int since = 418;            ///< the first driver branch that tells it
  std::string_view products;  ///< which GPUs tell it
};

/// All metrics, in the order in which they are shown.
std::span<const Metric> metrics();
/// The metric with this id, or nullptr.
const Metric* find_metric(std::string_view id);
/// The metric's value in its shown unit; nothing where the GPU does not report it.
std::optional<double> value_of(const Metric& metric, const GpuSample& sample);
/// Sets the metric from a value in its shown unit, rounded to the field's own resolution.
void set_value(const Metric& metric, GpuSample& sample, std::optional<double> value);
/// Empties every metric of a sample whose value is outside its range.
void drop_impossible(GpuSample& sample);

}  // namespace gpuwarden::facts
