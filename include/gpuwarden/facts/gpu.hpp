// SPDX-License-Identifier: Apache-2.0
// What a GPU is (Gpu), what it reads right now (GpuSample), who uses it (GpuProcess). Plain values; unknown is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::facts {

/// What can be done with a GPU. Everything but available and busy keeps it from being selected.
enum class GpuState {
  available,      ///< answers and nobody computes on it
  busy,           ///< answers; processes hold it
  lost,           ///< fell off the bus (NVML: GPU_IS_LOST)
  needs_reset,    ///< must be reset before use (NVML: RESET_REQUIRED)
  not_answering,  ///< no answer before the deadline, or an unknown error
  no_permission,  ///< the caller may not read it
  suspended,      ///< asleep (runtime power management); reading would wake it
  disabled,       ///< present, but no driver serves it
};
std::string_view to_string(GpuState state);
std::optional<GpuState> gpu_state_from(std::string_view name);

enum class ComputeMode { shared, exclusive_thread, prohibited, exclusive_process };
std::string_view to_string(ComputeMode mode);
std::optional<ComputeMode> compute_mode_from(std::string_view name);

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

/// Inventory: what does not change while the driver is loaded.
struct Gpu {
  GpuIndex index;
  Uuid uuid;
  std::string name;
  /// "00000000:17:00.0": domain (8 digits), bus, device, function, upper-case hexadecimal, as NVML prints it.
  std::string pci_bus_id;
  /// Device id in the upper, vendor id in the lower 16 bits, as NVML gives it (0x233010DE).
  std::optional<std::uint32_t> pci_device_id;
  std::optional<std::string> serial;
  std::optional<std::string> board_part_number;
  std::optional<std::string> vbios_version;
  std::optional<std::string> brand;
  std::optional<std::string> architecture;  ///< "Hopper"
  std::optional<ComputeCapability> compute_capability;
  std::optional<Count> multiprocessors;  ///< SMs
  std::optional<Count> cuda_cores;
  std::optional<Milliwatts> power_limit_min;
  std::optional<Milliwatts> power_limit_max;
  std::optional<Milliwatts> power_limit_default;
  std::optional<Megahertz> clock_graphics_max;
  std::optional<Megahertz> clock_sm_max;
  std::optional<Megahertz> clock_memory_max;
  std::optional<Count> pcie_generation_max;
  std::optional<Count> pcie_width_max;
  std::optional<bool> mig_enabled;
  std::optional<bool> mig_pending;
  std::optional<ComputeMode> compute_mode;
  std::optional<bool> persistence;
  std::optional<bool> ecc_enabled;
  std::optional<int> numa_node;
  std::optional<std::string> cpu_affinity;  ///< CPU list: "0-31,64-95"
  std::optional<Count> minor_number;        ///< N of /dev/nvidiaN

  bool operator==(const Gpu&) const = default;
};

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

/// One reading. The metric table (metrics.hpp) names every field and carries it to JSON, columns and exports.
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
  /// Empty optional: not reported. Empty vector: nothing holds the clocks back.
  std::optional<std::vector<ThrottleReason>> throttle_reasons;

  bool operator==(const GpuSample&) const = default;
};

/// A process that NVML lists on a GPU. user and command are empty where /proc does not permit or show them.
struct GpuProcess {
  Pid pid;
  bool compute = false;
  bool graphics = false;
  std::optional<std::string> user;
  std::optional<std::string> command;
  std::optional<Bytes> memory;
  std::optional<std::uint32_t> gpu_instance;
  std::optional<std::uint32_t> compute_instance;

  bool operator==(const GpuProcess&) const = default;
};
/// "C", "G" or "C+G", as nvidia-smi shows it.
std::string_view type_of(const GpuProcess& process);

/// A MIG instance: a slice of a GPU that CUDA sees as a device of its own.
struct MigDevice {
  std::uint32_t index = 0;  ///< within its GPU
  Uuid uuid;
  std::string name;                    ///< "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
  std::optional<std::string> profile;  ///< "1g.5gb"
  std::optional<std::uint32_t> gpu_instance;
  std::optional<std::uint32_t> compute_instance;
  std::optional<Count> multiprocessors;
  std::optional<Bytes> memory_total;
  std::optional<Bytes> memory_used;
  std::optional<Bytes> memory_free;

  bool operator==(const MigDevice&) const = default;
};

}  // namespace gpuwarden::facts
