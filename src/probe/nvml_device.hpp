// SPDX-License-Identifier: Apache-2.0
// Reads one GPU through NVML into a record. Runs in the reader's child process.
#pragma once

#include <optional>
#include <string_view>

#include "gpuwarden/facts/snapshot.hpp"
#include "probe/nvml_library.hpp"
#include "probe/nvml_rows.hpp"

namespace gpuwarden::probe {

/// Fills what tells the GPU from others: UUID, name, bus id.
void read_identity(const nvml::Functions& nvml, nvml::Device device, facts::GpuRecord& record);
/// Fills the rest of the inventory (what does not change while the driver is loaded).
void read_inventory(const nvml::Functions& nvml, nvml::Device device, facts::GpuRecord& record);
/// Fills what an administrator may change at any moment: compute mode and persistence.
void read_settings(const nvml::Functions& nvml, nvml::Device device, facts::Gpu& gpu);
/// Fills the reading, by the rows of a set, and the state where a call says that the GPU is in trouble.
void read_sample(const nvml::Functions& nvml, nvml::Device device, facts::GpuRecord& record, RowSet set = RowSet::all);
/// Fills what the GPU's memory holds, and the state where that call says that the GPU is in trouble.
void read_memory_alone(const nvml::Functions& nvml, nvml::Device device, facts::GpuRecord& record);
/// The rows of a set alone.
void read_basic_rows(const nvml::Functions& nvml, nvml::Device device, RowSet set, facts::GpuSample& sample);
/// Fills pid, kind, memory and instances of the processes; names come from /proc (processes.hpp).
void read_processes(const nvml::Functions& nvml, nvml::Device device, facts::GpuRecord& record);
/// Fills MIG instances.
void read_mig(const nvml::Functions& nvml, nvml::Device device, facts::GpuRecord& record);

/// Sets state, cause and next step when `code` says that the whole GPU is in trouble; true when it does.
bool note_trouble(nvml::Return code, std::string_view what, facts::GpuRecord& record);

}  // namespace gpuwarden::probe
