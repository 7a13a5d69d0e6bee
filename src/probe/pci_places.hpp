// SPDX-License-Identifier: Apache-2.0
// Which of the GPUs in /sys a GPU of NVML is, where NVML did not say it: pure.
#pragma once

#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {

/// Gives records (in index order) without a bus id the one that they must have, and all of them what /sys knows of
/// theirs. NVML counts in the order of bus ids, so that a GPU lies between its neighbours; where that leaves more than
/// one choice, or /sys shows fewer GPUs than NVML counts, the bus id stays empty. Sleeping GPUs become what /sys knows.
///
/// Only where needs_pci() says so of a record does it find anything to do.
void place_by_pci(const std::vector<PciGpu>& pci, std::vector<facts::GpuRecord>& records);

/// Whether /sys may know something of this GPU that its record does not hold.
bool needs_pci(const facts::GpuRecord& record);

/// A GPU that sleeps and is left asleep.
facts::GpuRecord sleeping_record(const PciGpu& gpu, GpuIndex index);

}  // namespace gpuwarden::probe
