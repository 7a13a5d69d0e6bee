// SPDX-License-Identifier: Apache-2.0
// GPUs of AMD and Intel, from what their kernel drivers (amdgpu, i915, xe) show in /sys.
#pragma once

#include <filesystem>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// In bus id order, with indices from `first`. A sleeping GPU is not woken unless options.wake says so; one without a
/// driver is disabled.
std::vector<facts::GpuRecord> read_other_gpus(const ReaderOptions& options, GpuIndex first);

/// The device's name in a list of PCI names (pci.ids): of several names in one entry, the marketed one in brackets.
std::optional<std::string> name_in_pci_ids(std::string_view list, std::uint16_t vendor, std::uint16_t device);

}  // namespace gpuwarden::probe
