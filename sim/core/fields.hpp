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
/// PCIe throughput KB/s, NVLink throughput MiB/s, NVLink traffic KiB, NVLink speed MB/s, slowdown times and latencies
/// microseconds; flags 0 or 1.
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
  jpeg_utilization,
  ofa_utilization,
  encoder_sessions,
  encoder_fps,
  encoder_latency,
  fbc_sessions,
  temperature_acoustic,
  temperature_margin,
  slowdown_power,
  slowdown_thermal,
  slowdown_sync_boost,
  slowdown_board_limit,
  slowdown_low_utilization,
  slowdown_reliability,
  slowdown_hw_thermal,
  slowdown_hw_power_brake,
  fan_rpm,
  retired_single_bit,
  retired_double_bit,
  remap_max,
  remap_high,
  remap_partial,
  remap_low,
  remap_none,
  accounting,
  virtualization,
  addressing_mode,
  confidential,
  fabric_state,
  fabric_clique,
  clock_graphics_application,
  clock_memory_application,
  sm_active,
  sm_occupancy,
  tensor_active,
  dram_active,
  fp64_active,
  fp32_active,
  fp16_active,
  nvlink_tx,
  nvlink_rx,
  nvlink_speed,
  nvlink_replays,
  nvlink_crc_errors,
  nvlink_sent,
  nvlink_received,
  ecc_pending,
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
