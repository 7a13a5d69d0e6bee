// SPDX-License-Identifier: Apache-2.0
// The plain table's cells become facts.
#include <fmt/format.h>

#include <algorithm>

#include "capture/cells.hpp"
#include "capture/identity.hpp"
#include "capture/smi_table.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/failed_readings.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::capture {
namespace {

using facts::GpuRecord;

/// "0%      Default": utilization and compute mode.
void read_busy(const TableGpu& row, GpuRecord& record) {
  const std::string cell = row.busy.value_or("");
  const auto words = split_words(cell);
  if (words.empty()) return;
  put(record.sample.utilization_gpu, number_of(words[0], "%"));
  const auto behind = static_cast<std::size_t>(words[0].data() + words[0].size() - cell.data());
  record.gpu.compute_mode = compute_mode_of(std::string_view(cell).substr(behind));
}

void read_sample(const TableGpu& row, GpuRecord& record) {
  facts::GpuSample& sample = record.sample;
  put(sample.fan_speed, number_of(row.fan.value_or(""), "%"));
  put(sample.temperature, number_of(row.temperature.value_or(""), "C"));
  const std::string state = row.performance.value_or("");
  if (state.starts_with('P')) put(sample.performance_state, number_of(std::string_view(state).substr(1), ""));
  const auto [draw, cap] = sides_of(row.power.value_or(""));
  put(sample.power, number_of(draw, "W"), 1000);
  put(sample.power_limit, number_of(cap, "W"), 1000);
  const auto [used, total] = sides_of(row.memory.value_or(""));
  sample.memory_used = used.ends_with("iB") ? memory_of(used) : std::nullopt;
  sample.memory_total = total.ends_with("iB") ? memory_of(total) : std::nullopt;
  if (sample.memory_used && sample.memory_total && *sample.memory_used <= *sample.memory_total)
    sample.memory_free = *sample.memory_total - *sample.memory_used;
  // The cell counts uncorrected volatile errors; "Off" and "N/A" say that ECC is off or absent.
  put(sample.ecc_uncorrected_volatile, number_of(row.ecc, ""));
  read_busy(row, record);
  facts::drop_impossible(sample);
}

/// "fan and power": whose cells say ERR!; empty: none does.
std::string failed_readings(const TableGpu& row) {
  std::vector<std::string> names;
  const auto look = [&](const std::optional<std::string>& cell, const char* name) {
    if (cell && cell->contains("ERR!")) names.emplace_back(name);
  };
  look(row.fan, "fan");
  look(row.temperature, "temperature");
  look(row.power, "power");
  return join(names, " and ");
}

GpuRecord record_of(const TableGpu& row) {
  GpuRecord record;
  facts::Gpu& gpu = record.gpu;
  gpu.index = GpuIndex{row.index};
  gpu.name = printable(row.name);
  gpu.pci_bus_id = bus_id_of(row.bus).value_or("");
  gpu.persistence = flag_of(row.persistence);
  gpu.display_active = flag_of(row.display);
  if (row.ecc == "Off") gpu.ecc_enabled = false;
  if (number_of(row.ecc, "")) gpu.ecc_enabled = true;
  gpu.mig_enabled = flag_of(row.mig.value_or(""));
  complete_from_model(gpu);
  read_sample(row, record);
  if (row.failed) {
    set_not_answering(record, "nvidia-smi shows ERR! for its readings");
  } else if (const std::string failed = failed_readings(row); !failed.empty()) {
    record.cause = fmt::format("{}{}: a sensor, the fan or the power reading failed", facts::kFailedReading, failed);
    record.next_step =
        "look for faults in the kernel log (dmesg | grep -i -E 'xid|nvrm'); a reset or a cold start may help, else the "
        "card or its power supply is bad";
  }
  return record;
}

facts::GpuProcess process_of(const TableProcess& row) {
  facts::GpuProcess process;
  process.pid = Pid{row.pid};
  set_type(process, row.type);
  if (!row.name.empty()) process.command = printable(row.name);
  if (row.memory.ends_with("iB")) process.memory = memory_of(row.memory);
  const auto instance = [](const std::string& cell) {
    const auto number = number_of(cell, "");
    return number ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
  };
  process.gpu_instance = instance(row.gpu_instance);
  process.compute_instance = instance(row.compute_instance);
  return process;
}

facts::MigDevice mig_of(const TableMig& row, const GpuRecord& parent) {
  facts::MigDevice mig;
  mig.index = row.device;
  mig.gpu_instance = row.gpu_instance;
  mig.compute_instance = row.compute_instance;
  if (row.multiprocessors) mig.multiprocessors = Count(*row.multiprocessors);
  const auto [used, total] = sides_of(row.memory);
  mig.memory_used = memory_of(used);
  mig.memory_total = memory_of(total);
  if (mig.memory_used && mig.memory_total && *mig.memory_used <= *mig.memory_total)
    mig.memory_free = *mig.memory_total - *mig.memory_used;
  mig.profile = mig_profile_of(parent.gpu, mig, std::nullopt, parent.sample.memory_total);
  mig.name = parent.gpu.name + " MIG" + (mig.profile ? " " + *mig.profile : "");
  return mig;
}

}  // namespace

facts::Snapshot snapshot_of_table(const SmiTable& table) {
  facts::Snapshot snapshot;
  snapshot.source = "nvidia-smi";
  snapshot.driver_version = text_of(table.driver_version);
  snapshot.cuda_driver_version = text_of(table.cuda_version);
  if (table.timestamp) snapshot.taken_at = time_of(*table.timestamp).value_or(snapshot.taken_at);
  for (const TableGpu& row : table.gpus) snapshot.gpus.push_back(record_of(row));
  // Where Linux's driver tells its persistence mode, Windows' tells its model.
  const bool model = std::ranges::any_of(table.gpus, [](const TableGpu& row) {
    return row.persistence == "WDDM" || row.persistence == "TCC" || row.persistence == "MCDM";
  });
  if (table.of_windows || model) snapshot.environment.emplace().host.distribution = knowledge::kWindows;
  const auto gpu_at = [&](std::uint32_t index) {
    return std::ranges::find(snapshot.gpus, GpuIndex{index}, [](const GpuRecord& record) { return record.gpu.index; });
  };
  for (const TableMig& row : table.mig_devices) {
    if (const auto gpu = gpu_at(row.gpu); gpu != snapshot.gpus.end()) gpu->mig_devices.push_back(mig_of(row, *gpu));
  }
  const bool told = table.has_process_section && table.processes_text.value_or("") != "Not Supported";
  for (GpuRecord& record : snapshot.gpus) {
    const bool silent =
        std::ranges::find(table.without_processes, record.gpu.index.value) != table.without_processes.end();
    if (told && !silent) record.processes.emplace();
  }
  for (const TableProcess& row : table.processes) {
    const auto gpu = gpu_at(row.gpu);
    if (gpu == snapshot.gpus.end() || !gpu->processes) continue;
    gpu->processes->push_back(process_of(row));
    if (gpu->processes->back().compute && is_usable(*gpu)) gpu->state = facts::GpuState::busy;
  }
  return snapshot;
}

}  // namespace gpuwarden::capture
