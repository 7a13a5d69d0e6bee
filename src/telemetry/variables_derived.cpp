// SPDX-License-Identifier: Apache-2.0
// Metrics that are computed from others.
#include <algorithm>
#include <array>
#include <cmath>

#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/telemetry/variables.hpp"

namespace gpuwarden::telemetry {
namespace {

using facts::GpuRecord;
using Derived = std::optional<double>;

template <class Unit>
Derived share_of(const std::optional<Unit>& part, const std::optional<Unit>& whole) {
  if (!part || !whole || whole->value <= 0) return std::nullopt;
  return 100 * ratio(*part, *whole);
}

Derived derive_memory_used_percent(const GpuRecord& r) { return share_of(r.sample.memory_used, r.sample.memory_total); }
Derived derive_bar1_used_percent(const GpuRecord& r) { return share_of(r.sample.bar1_used, r.sample.bar1_total); }
Derived derive_power_percent(const GpuRecord& r) { return share_of(r.sample.power, r.sample.power_limit); }

Derived derive_temperature_headroom(const GpuRecord& r) {
  if (!r.sample.temperature || !r.gpu.temperature_slowdown) return std::nullopt;
  return static_cast<double>((*r.gpu.temperature_slowdown - *r.sample.temperature).value);
}

// Each generation of PCIe carries twice as much in a lane as the one before.
Derived derive_pcie_link_percent(const GpuRecord& r) {
  const Derived width = share_of(r.sample.pcie_width, r.gpu.pcie_width_max);
  if (!width || !r.sample.pcie_generation || !r.gpu.pcie_generation_max) return std::nullopt;
  const auto steps = static_cast<int>((*r.sample.pcie_generation - *r.gpu.pcie_generation_max).value);
  return std::ldexp(*width, steps);
}

Derived derive_processes(const GpuRecord& r) {
  return r.processes ? Derived(static_cast<double>(r.processes->size())) : std::nullopt;
}

Derived derive_memory_of_processes(const GpuRecord& r) {
  if (!r.processes) return std::nullopt;
  Bytes sum(0);
  for (const auto& process : *r.processes) {
    if (process.listed && !process.memory) return std::nullopt;
    sum += process.memory.value_or(Bytes(0));
  }
  return static_cast<double>(sum.value);
}

Derived derive_idle(const GpuRecord& r) {
  switch (facts::use_of(r)) {
    case facts::Use::free:
      return 1;
    case facts::Use::busy:
    case facts::Use::in_use:
      return 0;
    default:
      return std::nullopt;
  }
}

Derived derive_throttled(const GpuRecord& r) {
  if (!r.sample.throttle_reasons) return std::nullopt;
  return std::ranges::any_of(*r.sample.throttle_reasons, facts::is_slowdown) ? 1 : 0;
}

Derived derive_nvlinks_active(const GpuRecord& r) {
  if (r.sample.nvlinks.empty()) return std::nullopt;
  if (!std::ranges::all_of(r.sample.nvlinks, [](const auto& link) { return link.active.has_value(); }))
    return std::nullopt;
  return static_cast<double>(std::ranges::count(r.sample.nvlinks, true, &facts::NvLink::active));
}

constexpr auto kDerived = std::to_array<DerivedMetric>({
    {"bar1_used_percent",
     "%",
     "Part of the BAR1 window in use: 100 * bar1_used / bar1_total.",
     derive_bar1_used_percent,
     {"bar1_used", "bar1_total"}},
    {"idle",
     "",
     "1 if nobody uses the GPU (no process, hardly any load or memory), 0 if somebody does.",
     derive_idle,
     {"utilization", "memory_used", "memory_total"}},
    {"memory_of_processes", "B", "Device memory of the listed processes: the sum of process_memory.",
     derive_memory_of_processes},
    {"memory_used_percent",
     "%",
     "Part of the device memory in use: 100 * memory_used / memory_total.",
     derive_memory_used_percent,
     {"memory_used", "memory_total"}},
    {"nvlinks_active", "", "NVLinks that are up.", derive_nvlinks_active},
    {"pcie_link_percent",
     "%",
     "Bandwidth of the PCIe link as a share of the greatest that the GPU can have: 100 * (pcie_width * "
     "2^pcie_generation) / (pcie_width_max * 2^pcie_generation_max). Links slow down while they are idle.",
     derive_pcie_link_percent,
     {"pcie_width", "pcie_generation"}},
    {"power_percent",
     "%",
     "Power draw as a share of the limit in force: 100 * power / power_limit.",
     derive_power_percent,
     {"power", "power_limit"}},
    {"processes", "", "Processes on the GPU.", derive_processes},
    {"temperature_headroom",
     "°C",
     "Degrees left until the GPU slows down: slowdown - temperature.",
     derive_temperature_headroom,
     {"temperature"}},
    {"throttled", "",
     "1 if the clocks are held back by power, heat or a fault, 0 if not (idle and set clocks do not count).",
     derive_throttled},
});

}  // namespace

std::span<const DerivedMetric> derived_metrics() { return kDerived; }

const DerivedMetric* find_derived_metric(std::string_view id) {
  const auto* const found = std::ranges::find(kDerived, id, &DerivedMetric::id);
  return found == kDerived.end() ? nullptr : found;
}

}  // namespace gpuwarden::telemetry
