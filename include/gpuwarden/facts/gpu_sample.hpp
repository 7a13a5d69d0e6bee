// SPDX-License-Identifier: Apache-2.0
// What a GPU reads at one moment: GpuSample. Plain values; unknown is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::facts {

/// Why clocks are below their maximum; several may hold at once. Names and order follow NVML's bit mask
/// (nvmlClocksEventReasons, bits 0 to 8).
enum class ThrottleReason {
  gpu_idle,
  applications_clocks_setting,
  sw_power_cap,
  hw_slowdown,
  sync_boost,
  sw_thermal_slowdown,
  hw_thermal_slowdown,
  hw_power_brake,
  display_clock_setting,
};
std::string_view to_string(ThrottleReason reason);
std::optional<ThrottleReason> throttle_reason_from(std::string_view name);
/// The reasons in NVML's bit mask, in bit order; unknown bits are dropped.
std::vector<ThrottleReason> throttle_reasons_from_mask(std::uint64_t mask);
/// Whether a reason means that the GPU is held back (idle and application clock settings do not).
bool is_slowdown(ThrottleReason reason);

/// One fan.
struct Fan {
  std::optional<Percent> speed;  ///< intended share of its maximum; above 100 on some boards
  std::optional<Count> rpm;

  bool operator==(const Fan&) const = default;
};

/// Memory errors at one place of the GPU.
struct EccCounts {
  std::string location;  ///< "dram", "sram", "l1_cache", "l2_cache", "register_file", "texture_memory", "cbu", ...
  std::optional<Count> corrected_volatile;
  std::optional<Count> uncorrected_volatile;
  std::optional<Count> corrected_aggregate;
  std::optional<Count> uncorrected_aggregate;

  bool operator==(const EccCounts&) const = default;
};

/// One NVLink of a GPU.
struct NvLink {
  std::uint32_t link = 0;
  std::optional<bool> active;
  std::optional<Count> version;         ///< NVML's number; 1 to 5 and more
  std::optional<BytesPerSecond> speed;  ///< one direction
  std::optional<std::string> remote;    ///< PCI bus id of the far end: a GPU or a switch
  std::optional<Bytes> sent;            ///< payload since the counters were reset
  std::optional<Bytes> received;
  std::optional<Count> replay_errors;
  std::optional<Count> recovery_errors;
  std::optional<Count> crc_flit_errors;
  std::optional<Count> crc_data_errors;

  bool operator==(const NvLink&) const = default;
};

/// Banks of memory by how many spare rows they have left.
struct RemapAvailability {
  std::optional<Count> max;
  std::optional<Count> high;
  std::optional<Count> partial;
  std::optional<Count> low;
  std::optional<Count> none;

  bool operator==(const RemapAvailability&) const = default;
};

/// One reading. The metric table (metrics.hpp) names every number of it and carries it to JSON, columns and exports.
struct GpuSample {
  std::optional<Percent> utilization_gpu;
  std::optional<Percent> utilization_memory;
  std::optional<Bytes> memory_total;
  std::optional<Bytes> memory_used;  ///< without the driver's reserved part where NVML tells them apart
  std::optional<Bytes> memory_free;
  std::optional<Bytes> memory_reserved;
  std::optional<Celsius> temperature;
  std::optional<Milliwatts> power;
  std::optional<Milliwatts> power_limit;  ///< the limit in force
  std::optional<Megahertz> clock_graphics;
  std::optional<Megahertz> clock_sm;
  std::optional<Megahertz> clock_memory;
  std::optional<Megahertz> clock_video;
  std::optional<Count> performance_state;  ///< 0 (P0, fastest) to 15
  std::optional<Percent> fan_speed;
  std::optional<Count> pcie_generation;
  std::optional<Count> pcie_width;
  std::optional<Count> ecc_corrected_volatile;
  std::optional<Count> ecc_uncorrected_volatile;
  std::optional<Count> ecc_corrected_aggregate;
  std::optional<Count> ecc_uncorrected_aggregate;
  std::optional<Millijoules> energy;  ///< since the driver was loaded

  std::optional<Percent> utilization_encoder;
  std::optional<Percent> utilization_decoder;
  std::optional<Percent> utilization_jpeg;
  std::optional<Percent> utilization_ofa;  ///< optical flow accelerator
  std::optional<Count> encoder_sessions;
  std::optional<Count> encoder_frame_rate;      ///< average over the sessions, frames/s
  std::optional<Microseconds> encoder_latency;  ///< average over the sessions
  std::optional<Count> frame_capture_sessions;
  std::optional<Bytes> bar1_total;
  std::optional<Bytes> bar1_used;
  std::optional<Bytes> bar1_free;
  std::optional<Celsius> temperature_memory;
  std::optional<Celsius> temperature_margin;  ///< degrees left until the GPU slows down
  std::optional<Milliwatts> power_average;
  std::optional<Milliwatts> power_instant;
  std::optional<Milliwatts> power_limit_requested;
  std::optional<Megahertz> clock_graphics_application;
  std::optional<Megahertz> clock_memory_application;
  std::optional<BytesPerSecond> pcie_sent;      ///< by the GPU
  std::optional<BytesPerSecond> pcie_received;  ///< by the GPU
  std::optional<Count> pcie_replays;
  std::optional<Count> retired_pages_single_bit;
  std::optional<Count> retired_pages_double_bit;
  std::optional<Count> retired_pages_pending;  ///< 0 or 1: a reboot will retire more
  std::optional<Count> remapped_rows_corrected;
  std::optional<Count> remapped_rows_uncorrected;
  std::optional<Count> remapped_rows_pending;  ///< 0 or 1: a reset will remap more
  std::optional<Count> remapped_rows_failed;   ///< 0 or 1: no spare row was left
  std::optional<Microseconds> slowdown_power;  ///< time held back by the power cap, since the driver was loaded
  std::optional<Microseconds> slowdown_thermal;
  std::optional<Microseconds> slowdown_sync_boost;
  std::optional<Microseconds> slowdown_board_limit;
  std::optional<Microseconds> slowdown_low_utilization;
  std::optional<Microseconds> slowdown_reliability;
  std::optional<Microseconds> slowdown_hw_thermal;
  std::optional<Microseconds> slowdown_hw_power_brake;
  std::optional<Share> sm_active;      ///< GPM: share of time with a warp on an SM, averaged over SMs
  std::optional<Share> sm_occupancy;   ///< GPM: resident warps of those possible
  std::optional<Share> tensor_active;  ///< GPM: share of time in which the tensor pipes worked
  std::optional<Share> dram_active;    ///< GPM: share of the memory bandwidth in use
  std::optional<Share> fp64_active;
  std::optional<Share> fp32_active;
  std::optional<Share> fp16_active;
  std::optional<BytesPerSecond> nvlink_sent;      ///< GPM: over all links
  std::optional<BytesPerSecond> nvlink_received;  ///< GPM: over all links

  std::vector<Fan> fans;
  std::vector<EccCounts> ecc_locations;
  std::vector<NvLink> nvlinks;
  std::optional<RemapAvailability> remap_availability;
  /// Empty optional: not reported. Empty vector: nothing holds the clocks back.
  std::optional<std::vector<ThrottleReason>> throttle_reasons;

  bool operator==(const GpuSample&) const = default;
};

}  // namespace gpuwarden::facts
