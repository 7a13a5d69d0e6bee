// SPDX-License-Identifier: Apache-2.0
#include "sim/core/fields.hpp"

#include <cmath>

namespace gpuwarden::sim {
namespace {

struct Row {
  std::string_view name;
  double low;
  double high;
};

constexpr double kMany = 1e15;

/// In the order of the enumeration; the static_assert below and a test hold that.
constexpr std::array kRows = std::to_array<Row>({
    {"temperature", -50, 150},
    {"memory_temperature", -50, 150},
    {"temperature_slowdown", 0, 150},
    {"temperature_shutdown", 0, 150},
    {"temperature_max", 0, 150},
    {"temperature_memory_max", 0, 150},
    {"power", 0, 10000},
    {"power_limit", 0, 10000},
    {"power_limit_default", 0, 10000},
    {"power_limit_min", 0, 10000},
    {"power_limit_max", 0, 10000},
    {"energy", 0, kMany},
    {"utilization", 0, 100},
    {"memory_utilization", 0, 100},
    {"encoder_utilization", 0, 100},
    {"decoder_utilization", 0, 100},
    {"memory_total", 1, 1048576},
    {"memory_used", 0, 1048576},
    {"memory_reserved", 0, 1048576},
    {"bar1_total", 0, 4194304},
    {"bar1_used", 0, 4194304},
    {"clock_graphics", 0, 10000},
    {"clock_sm", 0, 10000},
    {"clock_memory", 0, 20000},
    {"clock_video", 0, 10000},
    {"clock_graphics_max", 0, 10000},
    {"clock_sm_max", 0, 10000},
    {"clock_memory_max", 0, 20000},
    {"clock_video_max", 0, 10000},
    {"fan_speed", 0, 100},
    {"performance_state", 0, 15},
    {"throttle_reasons", 0, 1023},
    {"pcie_generation", 1, 7},
    {"pcie_width", 1, 32},
    {"pcie_generation_max", 1, 7},
    {"pcie_width_max", 1, 32},
    {"pcie_tx", 0, 4e9},
    {"pcie_rx", 0, 4e9},
    {"pcie_replays", 0, 4e9},
    {"ecc_enabled", 0, 1},
    {"ecc_corrected_volatile", 0, kMany},
    {"ecc_uncorrected_volatile", 0, kMany},
    {"ecc_corrected_aggregate", 0, kMany},
    {"ecc_uncorrected_aggregate", 0, kMany},
    {"remapped_corrected", 0, 4e9},
    {"remapped_uncorrected", 0, 4e9},
    {"remapped_pending", 0, 1},
    {"remapped_failure", 0, 1},
    {"retired_pending", 0, 1},
    {"persistence", 0, 1},
    {"compute_mode", 0, 3},
    {"display_mode", 0, 1},
    {"display_active", 0, 1},
    {"multiprocessors", 1, 4096},
    {"cuda_cores", 1, 1000000},
    {"bus_width", 1, 65536},
    {"mig_enabled", 0, 1},
    {"mig_pending", 0, 1},
    {"minor_number", 0, 255},
    {"numa_node", 0, 255},
    {"nvlink_count", 0, 18},
    {"nvlink_version", 0, 16},
    {"jpeg_utilization", 0, 100},
    {"ofa_utilization", 0, 100},
    {"encoder_sessions", 0, 1e6},
    {"encoder_fps", 0, 1e6},
    {"encoder_latency", 0, 1e9},
    {"fbc_sessions", 0, 1e6},
    {"temperature_acoustic", 0, 150},
    {"temperature_margin", -100, 200},
    {"slowdown_power", 0, kMany},
    {"slowdown_thermal", 0, kMany},
    {"slowdown_sync_boost", 0, kMany},
    {"slowdown_board_limit", 0, kMany},
    {"slowdown_low_utilization", 0, kMany},
    {"slowdown_reliability", 0, kMany},
    {"slowdown_hw_thermal", 0, kMany},
    {"slowdown_hw_power_brake", 0, kMany},
    {"fan_rpm", 0, 100000},
    {"retired_single_bit", 0, 64},
    {"retired_double_bit", 0, 64},
    {"remap_max", 0, 100000},
    {"remap_high", 0, 100000},
    {"remap_partial", 0, 100000},
    {"remap_low", 0, 100000},
    {"remap_none", 0, 100000},
    {"accounting", 0, 1},
    {"virtualization", 0, 4},
    {"addressing_mode", 0, 2},
    {"confidential", 0, 1},
    {"fabric_state", 0, 3},
    {"fabric_clique", 0, 4e9},
    {"clock_graphics_application", 0, 10000},
    {"clock_memory_application", 0, 20000},
    {"sm_active", 0, 100},
    {"sm_occupancy", 0, 100},
    {"tensor_active", 0, 100},
    {"dram_active", 0, 100},
    {"fp64_active", 0, 100},
    {"fp32_active", 0, 100},
    {"fp16_active", 0, 100},
    {"nvlink_tx", 0, kMany},
    {"nvlink_rx", 0, kMany},
    {"nvlink_speed", 0, 1e6},
    {"nvlink_replays", 0, kMany},
    {"nvlink_crc_errors", 0, kMany},
    {"nvlink_sent", 0, kMany},
    {"nvlink_received", 0, kMany},
    {"ecc_pending", 0, 1},
});
static_assert(kRows.size() == kFieldCount);

}  // namespace

std::string_view to_string(Field field) { return kRows[static_cast<std::size_t>(field)].name; }

std::optional<Field> field_from(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Field>(i);
  }
  return std::nullopt;
}

bool is_possible(Field field, double value) {
  const Row& row = kRows[static_cast<std::size_t>(field)];
  return std::isfinite(value) && value >= row.low && value <= row.high;
}

}  // namespace gpuwarden::sim
