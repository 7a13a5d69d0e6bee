// SPDX-License-Identifier: Apache-2.0
// Network adapters and how near each GPU is to them, from the kernel's device tree.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// How two PCI devices are joined, by nvidia-smi topo's levels, from their paths below /sys/devices
/// ("pci0000:16/0000:16:01.0/0000:17:00.0/...") and NUMA nodes (-1: unknown).
facts::LinkLevel level_between(const std::filesystem::path& a, int node_a, const std::filesystem::path& b, int node_b);

/// InfiniBand and RoCE adapters (SYS_ROOT/class/infiniband), by name, with their distance to each of the GPUs that has
/// a bus id there. What cannot be read is left out.
std::vector<facts::Nic> read_nics(const std::filesystem::path& sys_root, const std::vector<facts::GpuRecord>& gpus);

}  // namespace gpuwarden::probe
