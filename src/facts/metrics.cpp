// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpuwarden::facts {
namespace {

constexpr double kMany = 1e15;
constexpr double kMostBytes = 64.0 * (1ULL << 40U);  // 64 TiB; BAR1 windows are wider than the memory behind them

constexpr auto kMetrics = std::to_array<Metric>({
#define GPUWARDEN_METRIC(unit_type, name, ...) {.field = &GpuSample::name, __VA_ARGS__},
#include "gpuwarden/facts/metric_table.inc"
#undef GPUWARDEN_METRIC
});

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

const Metric* find_metric(std::string_view id) {
  const auto* const found = std::ranges::find(kMetrics, id, &Metric::id);
  return found == kMetrics.end() ? nullptr : found;
}

std::optional<double> value_of(const Metric& metric, const GpuSample& sample) {
  return std::visit(
      [&]<class Unit>(std::optional<Unit> GpuSample::* field) -> std::optional<double> {
        if (!(sample.*field)) return std::nullopt;
        return static_cast<double>((sample.*field)->value) / kStepsPerShownUnit<Unit>;
      },
      metric.field);
}

void set_value(const Metric& metric, GpuSample& sample, std::optional<double> value) {
  std::visit(
      [&]<class Unit>(std::optional<Unit> GpuSample::* field) {
        sample.*field =
            value
                ? std::optional(Unit(static_cast<typename Unit::rep>(std::llround(*value * kStepsPerShownUnit<Unit>))))
                : std::nullopt;
      },
      metric.field);
}

void drop_impossible(GpuSample& sample) {
  for (const Metric& metric : kMetrics) {
    const auto value = value_of(metric, sample);
    if (value && (*value < metric.range.low || *value > metric.range.high)) set_value(metric, sample, std::nullopt);
  }
}

}  // namespace gpuwarden::facts
