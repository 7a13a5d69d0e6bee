// SPDX-License-Identifier: Apache-2.0
// nvidia-smi -q, as a tree, becomes facts.
#pragma once

#include "capture/smi_tree.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// GPUs are numbered in the log's order, which is NVML's.
facts::Snapshot snapshot_of_report(const Node& report);

/// Where the log has a GPU's power draw, total memory and utilization; names changed between drivers.
const Node& power_draw_of(const Node& gpu);
const Node& driver_version_of(const Node& report);
const Node& cuda_version_of(const Node& report);
/// The entries of a GPU's process list, whichever way the log nests them.
std::vector<facts::GpuProcess> processes_of(const Node& gpu);
std::vector<const Node*> mig_devices_of(const Node& gpu);

}  // namespace gpuwarden::capture
