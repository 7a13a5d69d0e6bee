// SPDX-License-Identifier: Apache-2.0
// What the edges of graphs stand for, and the values in them.
#include <algorithm>
#include <array>
#include <cmath>

#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

/// Bytes a second of one PCIe lane in one direction, by generation (PCI-SIG; from 3 on with 128b/130b).
constexpr std::array kLaneSpeeds{0.0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};

double pcie_speed(const facts::GpuRecord& record) {
  const auto generation =
      record.gpu.pcie_generation_max.value_or(record.sample.pcie_generation.value_or(Count(0))).value;
  const auto width = record.gpu.pcie_width_max.value_or(record.sample.pcie_width.value_or(Count(0))).value;
  if (generation < 1 || generation >= static_cast<std::int64_t>(kLaneSpeeds.size())) return 0;
  return kLaneSpeeds.at(static_cast<std::size_t>(generation)) * static_cast<double>(width);
}

double nvlink_speed(const facts::GpuRecord& record) {
  double sum = 0;
  for (const facts::NvLink& link : record.sample.nvlinks)
    if (link.active.value_or(false) && link.speed) sum += static_cast<double>(link.speed->value);
  return sum;
}

template <class T>
double known(const std::optional<T>& value) {
  return value ? static_cast<double>(value->value) / kStepsPerShownUnit<T> : 0;
}

/// The highest that a metric of this GPU can be; 0 where that is not known.
double ceiling_of(const facts::Metric& metric, const facts::GpuRecord& record) {
  const facts::Gpu& gpu = record.gpu;
  const facts::GpuSample& sample = record.sample;
  if (metric.unit == "%") return 100;
  if (metric.id.starts_with("memory_")) return known(sample.memory_total);
  if (metric.id.starts_with("bar1_")) return known(sample.bar1_total);
  if (metric.unit == "W") return std::max(known(sample.power_limit), known(gpu.power_limit_max));
  if (metric.id.starts_with("clock_memory")) return known(gpu.clock_memory_max);
  if (metric.id == "clock_video") return known(gpu.clock_video_max);
  if (metric.unit == "MHz")
    return known(gpu.clock_sm_max) > 0 ? known(gpu.clock_sm_max) : known(gpu.clock_graphics_max);
  if (metric.id.starts_with("pcie_") && metric.unit == "B/s") return pcie_speed(record);
  if (metric.id.starts_with("nvlink_")) return nvlink_speed(record);
  return 0;
}

/// 1, 2 or 5 times a power of ten, not below the value.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0, 10.0})
    if (value <= step * power * (1 + 1e-9)) return step * power;
  return value;
}

}  // namespace

Axis axis_of(const facts::Metric& metric, const facts::GpuRecord& record, std::span<const float> seen) {
  if (metric.unit == "°C") {
    const double slowdown = known(record.gpu.temperature_slowdown);
    return {.low = 20, .high = slowdown > 20 ? slowdown : 95};
  }
  const double ceiling = ceiling_of(metric, record);
  if (ceiling > 0) return {.low = 0, .high = ceiling};
  double most = 0;
  double least = 0;
  bool any = false;
  for (const float value : seen) {
    if (std::isnan(value)) continue;
    most = any ? std::max<double>(most, value) : value;
    least = any ? std::min<double>(least, value) : value;
    any = true;
  }
  // Of a counter only its rise in sight says something.
  if (metric.kind == facts::MetricKind::counter && most > least) return {.low = least, .high = most};
  return {.low = 0, .high = most > 0 ? round_up(most) : 1};
}

std::vector<float> graph_values(const Frame& frame, const GpuRow& row, std::size_t metric, int width) {
  if (frame.scene.trail == nullptr || width <= 0) return {};
  const auto dots = static_cast<std::size_t>(width) * static_cast<std::size_t>(dots_in_cell(frame.state.glyphs));
  return frame.scene.trail->graph(row.key, metric,
                                  {.newest = frame.scene.slot, .dots = dots, .each = frame.state.zoom});
}

}  // namespace gpuwarden::view
