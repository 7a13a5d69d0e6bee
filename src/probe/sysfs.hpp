// SPDX-License-Identifier: Apache-2.0
// GPUs as the kernel shows them, without any library: the PCI tree, the display cards, what NVIDIA's module tells in
// /proc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

inline constexpr std::uint16_t kVendorNvidia = 0x10DE;

/// A GPU in SYS_ROOT/bus/pci/devices, or behind SYS_ROOT/class/drm.
struct PciGpu {
  std::string bus_id;  ///< as facts::Gpu::pci_bus_id
  std::uint16_t vendor = kVendorNvidia;
  std::uint16_t device = 0;
  std::string name;  ///< of NVIDIA's only
  bool suspended = false;
  std::optional<int> numa_node;
  std::optional<std::string> cpu_list;
  std::optional<std::string> driver;  ///< the kernel driver it is bound to: "nvidia", "nouveau", "vfio-pci", "amdgpu"
  std::filesystem::path folder;
  // From PROC_ROOT/driver/nvidia/gpus.
  std::optional<std::string> uuid;
  std::optional<std::uint32_t> minor;
};

/// NVIDIA's, in bus id order, which is NVML's order: where each is, whether it sleeps and which kernel driver it is
/// bound to. What it is besides is left out until describe() is asked, for NVML mostly tells that.
std::vector<PciGpu> find_pci(const std::filesystem::path& sys_root);
/// Reads the rest of what /sys knows of GPUs that were found: device id, name, NUMA node, CPUs.
void describe(std::vector<PciGpu>& gpus);
/// Both in one.
std::vector<PciGpu> scan_pci(const std::filesystem::path& sys_root);
/// The first in one object, with the second when it is asked for.
class PciLook {
 public:
  void look(const std::filesystem::path& sys_root) {
    gpus_ = find_pci(sys_root);
    described_ = false;
  }
  const std::vector<PciGpu>& gpus() const { return gpus_; }
  const std::vector<PciGpu>& described() {
    if (!described_) describe(gpus_);
    described_ = true;
    return gpus_;
  }

 private:
  std::vector<PciGpu> gpus_;
  bool described_ = false;
};
/// AMD's and Intel's, in bus id order. Display chips of board controllers are none.
std::vector<PciGpu> scan_other_pci(const std::filesystem::path& sys_root);

/// Model, UUID and minor number from PROC_ROOT/driver/nvidia/gpus/*/information; adds GPUs that only stand there.
void complete_from_driver(const std::filesystem::path& proc_root, std::vector<PciGpu>& gpus);

/// A record that holds what /sys knows.
facts::GpuRecord record_of(const PciGpu& gpu, GpuIndex index, facts::GpuState state, std::string cause,
                           std::string next_step);

/// The loaded kernel module's version, from PROC_ROOT/driver/nvidia/version.
std::optional<std::string> kernel_module_version(const std::filesystem::path& proc_root);

}  // namespace gpuwarden::probe
