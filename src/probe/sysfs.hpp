// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs as the kernel's PCI tree shows them: by name and state, without any driver.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// A GPU of NVIDIA's in SYS_ROOT/bus/pci/devices.
struct PciGpu {
  std::string bus_id;  ///< as facts::Gpu::pci_bus_id
  std::uint16_t device = 0;
  std::string name;
  bool suspended = false;
  std::optional<int> numa_node;
  std::optional<std::string> cpu_list;
};

/// In bus id order, which is NVML's order.
std::vector<PciGpu> scan_pci(const std::filesystem::path& sys_root);

/// A record that holds what /sys knows.
facts::GpuRecord record_of(const PciGpu& gpu, GpuIndex index, facts::GpuState state, std::string cause,
                           std::string next_step);

/// The loaded kernel module's version, from PROC_ROOT/driver/nvidia/version.
std::optional<std::string> kernel_module_version(const std::filesystem::path& proc_root);

}  // namespace gpuwarden::probe
