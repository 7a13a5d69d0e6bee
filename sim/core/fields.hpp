// SPDX-License-Identifier: Apache-2.0
// The numeric readings a simulated GPU has, by name: fleets pin them, control calls set them, NVML functions return
// them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace gpuwarden::sim {

/// Units: temperatures Celsius, power watts, energy joules, memory MiB, clocks MHz, utilization and fans percent,
/// PCIe throughput KB/s; flags 0 or 1.
enum class Field : unsigned {
  temperature,
  memory_temperature,
  temperature_slowdown,
  temperature_shutdown,
  temperature_max,
  temperature_memory_max,
  power,
  power_limit,
  power_limit_default,
  power_limit_min,
  power_limit_max,
  energy,
  utilization,
  memory_utilization,
  encoder_utilization,
  decoder_utilization,
  memory_total,
  memory_used,
  memory_reserved,
  bar1_total,
  bar1_used,
  clock_graphics,
  clock_sm,
  clock_memory,
  clock_video,
  clock_graphics_max,
  clock_sm_max,
  clock_memory_max,
  clock_video_max,
  fan_speed,
  performance_state,
  throttle_reasons,
  pcie_generation,
  pcie_width,
  pcie_generation_max,
  pcie_width_max,
  pcie_tx,
  pcie_rx,
  pcie_replays,
  ecc_enabled,
  ecc_corrected_volatile,
  ecc_uncorrected_volatile,
  ecc_corrected_aggregate,
  ecc_uncorrected_aggregate,
  remapped_corrected,
  remapped_uncorrected,
  remapped_pending,
  remapped_failure,
  retired_pending,
  persistence,
  compute_mode,
  display_mode,
  display_active,
  multiprocessors,
  cuda_cores,
  bus_width,
  mig_enabled,
  mig_pending,
  minor_number,
  numa_node,
  nvlink_count,
  nvlink_version,
  count_  ///< how many there are
};
inline constexpr std::size_t kFieldCount = static_cast<std::size_t>(Field::count_);

/// A value for each field; empty means that the product does not report it.
using Readings = std::array<std::optional<double>, kFieldCount>;

std::string_view to_string(Field field);
std::optional<Field> field_from(std::string_view name);
/// Whether the value is possible for the field (a temperature within -50..150, a percentage within 0..100 ...).
bool is_possible(Field field, double value);

inline std::optional<double>& at(Readings& readings, Field field) { return readings[static_cast<std::size_t>(field)]; }
inline const std::optional<double>& at(const Readings& readings, Field field) {
  return readings[static_cast<std::size_t>(field)];
}

}  // namespace gpuwarden::sim
