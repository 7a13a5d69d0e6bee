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

/// One reading. Its numbers are the rows of the metric table: `power` is std::optional<Milliwatts>, and so on.
struct GpuSample {
#define GPUWARDEN_METRIC(unit, field, ...) std::optional<unit> field;
#include "gpuwarden/facts/metric_table.inc"
#undef GPUWARDEN_METRIC

  std::vector<Fan> fans;
  std::vector<EccCounts> ecc_locations;
  std::vector<NvLink> nvlinks;
  std::optional<RemapAvailability> remap_availability;
  /// Empty optional: not reported. Empty vector: nothing holds the clocks back.
  std::optional<std::vector<ThrottleReason>> throttle_reasons;

  bool operator==(const GpuSample&) const = default;
};

}  // namespace gpuwarden::facts
