// SPDX-License-Identifier: Apache-2.0
// The part of NVML's reading that is asked for by name only: inventory that few need, readings that cost much.
#pragma once

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "probe/nvml_library.hpp"
#include "probe/nvml_rows.hpp"

namespace gpuwarden::probe {

/// What does not change: thresholds, InfoROM, firmware, virtualization, board.
void read_detailed_inventory(const nvml::Functions& nvml, nvml::Device device, facts::Gpu& gpu);
/// What may change at any moment besides readings: accounting, display, the state of the fabric.
void read_detailed_settings(const nvml::Functions& nvml, nvml::Device device, facts::Gpu& gpu);
/// What changes and is cheap: more utilizations, BAR1, temperatures, power, repairs, slowdown times, errors by place.
void read_detailed_sample(const nvml::Functions& nvml, nvml::Device device, facts::GpuSample& sample,
                          RowSet set = RowSet::all);
/// What costs: PCIe throughput (the driver measures for 20 ms), NVLink counters, and profiling (GPM), which needs two
/// samples some time apart on `clock` where the GPU has it.
void read_slow_sample(const nvml::Functions& nvml, nvml::Device device, Clock& clock, facts::GpuSample& sample,
                      RowSet set = RowSet::all);
/// Fills the processes' shares of the GPU from the driver's recent samples.
void read_process_utilization(const nvml::Functions& nvml, nvml::Device device, facts::GpuRecord& record);

}  // namespace gpuwarden::probe
