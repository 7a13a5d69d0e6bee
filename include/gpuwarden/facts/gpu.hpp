// SPDX-License-Identifier: Apache-2.0
// What a GPU is (Gpu), who uses it (GpuProcess), how it is divided (MigDevice). Plain values; unknown is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/facts/gpu_sample.hpp"

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
  faulty,         ///< answers what cannot be true: impossible memory, another GPU's UUID
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
/// "8.6"; nothing for another text, or for what no GPU has (1.0 to 99.9).
std::optional<ComputeCapability> compute_capability_from(std::string_view text);

/// Membership in an NVLink fabric of NVSwitches, as nvmlDeviceGetGpuFabricInfo tells it.
struct Fabric {
  std::string state;                        ///< "not_started", "in_progress", "completed"
  std::optional<std::string> status;        ///< "success", or NVML's error in words
  std::optional<std::string> cluster_uuid;  ///< of the NVLink domain
  std::optional<std::uint32_t> clique;

  bool operator==(const Fabric&) const = default;
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
  std::optional<Megahertz> clock_video_max;
  std::optional<Celsius> temperature_shutdown;
  std::optional<Celsius> temperature_slowdown;
  std::optional<Celsius> temperature_max;         ///< highest for full performance (NVML: GPU_MAX)
  std::optional<Celsius> temperature_memory_max;  ///< highest for full performance of the memory (NVML: MEM_MAX)
  std::optional<Celsius> temperature_acoustic;    ///< the fan's current target (NVML: ACOUSTIC_CURR)
  std::optional<Count> memory_bus_width;          ///< bits
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
  std::string vendor = "NVIDIA";            ///< "NVIDIA", "AMD", "Intel"
  std::optional<std::string> board_id;      ///< "0x1700"; GPUs of one board share it
  std::optional<std::string> inforom_image_version;
  std::optional<std::string> inforom_oem_version;
  std::optional<std::string> inforom_ecc_version;
  std::optional<std::string> inforom_power_version;
  std::optional<std::string> gsp_firmware_version;
  std::optional<std::string> virtualization_mode;  ///< "none", "pass_through", "vgpu", "host_vgpu", "host_vsga"
  std::optional<std::string> addressing_mode;      ///< "HMM", "ATS", "none"
  std::optional<bool> confidential_computing;
  std::optional<bool> accounting;
  std::optional<bool> display_attached;
  std::optional<bool> display_active;
  std::optional<Fabric> fabric;

  bool operator==(const Gpu&) const = default;
};

/// A process on a GPU: listed by NVML, or found to have the GPU's device file open. user and command are empty where
/// /proc does not permit or show them.
struct GpuProcess {
  Pid pid;
  bool compute = false;
  bool graphics = false;
  std::optional<std::string> user;
  std::optional<std::string> command;
  std::optional<Bytes> memory;
  std::optional<std::uint32_t> gpu_instance;
  std::optional<std::uint32_t> compute_instance;
  bool mps = false;                    ///< a client of the Multi-Process Service
  bool listed = true;                  ///< false: NVML does not list it, it only has the device file open
  std::optional<Percent> sm;           ///< share of the last samples in which its kernels ran
  std::optional<Percent> memory_busy;  ///< share in which device memory was read or written for it
  std::optional<Percent> encoder;
  std::optional<Percent> decoder;
  std::optional<Percent> jpeg;
  std::optional<Percent> ofa;
  std::optional<std::string> container;  ///< container id, 12 hexadecimal digits
  std::optional<std::string> pod;        ///< Kubernetes pod UID
  std::optional<std::string> slurm_job;  ///< job id

  bool operator==(const GpuProcess&) const = default;
};
/// "C", "G", "C+G", with "M+" before it for MPS clients, as nvidia-smi shows it; "-" where NVML does not list it.
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
