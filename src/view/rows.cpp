// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <functional>

#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/view/scene.hpp"
#include "view/process_order.hpp"

namespace gpuwarden::view {
namespace {

const facts::Health* health_of(const cluster::Node& node, const Uuid& uuid) {
  const auto found = std::ranges::find(node.health, uuid, &facts::Health::uuid);
  return found == node.health.end() ? nullptr : &*found;
}

const telemetry::Alert* worst_alert(const cluster::Node& node, const Uuid& uuid) {
  const telemetry::Alert* worst = nullptr;
  for (const telemetry::Alert& alert : node.alerts) {
    if (alert.uuid != uuid || !alert.acknowledged_by.empty() || alert.ended) continue;
    if (worst == nullptr || alert.level > worst->level) worst = &alert;
  }
  return worst;
}

bool same_ignoring_case(char a, char b) {
  return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
}

/// Whether a GPU is meant by an index, a UUID or its beginning, or a PCI bus id or its end.
bool is_named(const facts::Gpu& gpu, const std::string& name) {
  if (std::to_string(gpu.index.value) == name) return true;
  if (name.size() >= 6 && gpu.uuid.value.starts_with(name)) return true;
  return name.contains(':') && gpu.pci_bus_id.size() >= name.size() &&
         std::equal(name.rbegin(), name.rend(), gpu.pci_bus_id.rbegin(), same_ignoring_case);
}

void add_node(const ViewState& state, const cluster::Node& node, bool several, std::vector<GpuRow>& rows) {
  if (node.reading == nullptr || node.reading->snapshot.gpus.empty()) {
    if (several || node.problem) rows.push_back({.node = &node, .key = node.name + '/', .label = node.name});
    return;
  }
  for (const facts::GpuRecord& record : node.reading->snapshot.gpus) {
    const auto named = [&](const std::string& name) { return is_named(record.gpu, name); };
    if (!state.only.empty() && std::ranges::none_of(state.only, named)) continue;
    const std::string index = std::to_string(record.gpu.index.value);
    rows.push_back({.node = &node,
                    .record = &record,
                    .lease = facts::find_lease(node.reading->leases, record),
                    .health = health_of(node, record.gpu.uuid),
                    .alert = worst_alert(node, record.gpu.uuid),
                    .key = gpu_key(node, record),
                    .label = several ? node.name + ":" + index : index});
  }
}

telemetry::Subject subject_of(const GpuRow& row, const facts::GpuProcess* process) {
  return {.gpu = row.record, .process = process, .lease = row.lease, .health = row.health, .host = row.node->name};
}

/// Whether the filter lets a GPU through: by itself, or because one of its processes is meant.
bool passes(const ViewState& state, const GpuRow& row) {
  if (!state.filter) return true;
  if (row.record == nullptr) return false;
  if (!state.filter->about_processes()) return state.filter->holds(subject_of(row, nullptr)).value_or(false);
  if (!row.record->processes) return false;
  return std::ranges::any_of(*row.record->processes, [&](const facts::GpuProcess& process) {
    return state.filter->holds(subject_of(row, &process)).value_or(false);
  });
}

bool passes(const ViewState& state, const GpuRow& row, const facts::GpuProcess& process) {
  return !state.filter || state.filter->holds(subject_of(row, &process)).value_or(false);
}

/// Memory that is taken by nobody who is listed, where that is more than a driver's own.
Bytes unlisted_memory(const facts::GpuRecord& record) {
  if (!record.processes || !record.sample.memory_used || !facts::has_unlisted_user(record)) return Bytes(0);
  Bytes listed(0);
  for (const facts::GpuProcess& process : *record.processes) listed += process.memory.value_or(Bytes(0));
  const Bytes used = *record.sample.memory_used;
  return used > listed ? used - listed : Bytes(0);
}

void add_processes(const ViewState& state, const Scene& scene, std::size_t gpu, Rows& rows) {
  const GpuRow& row = rows.all_gpus[gpu];
  if (row.record == nullptr || !row.record->processes) return;
  for (const facts::GpuProcess& process : *row.record->processes) {
    if (!passes(state, row, process)) continue;
    // Pids of other nodes mean other processes.
    const auto host = row.node->url.empty() ? scene.host.find(process.pid) : scene.host.end();
    rows.processes.push_back({.gpu = gpu,
                              .process = &process,
                              .host = host == scene.host.end() ? nullptr : &host->second,
                              .id = {row.key, process.pid}});
  }
  const Bytes left = unlisted_memory(*row.record);
  if (left.value > 0 && !state.filter) rows.processes.push_back({.gpu = gpu, .memory_left = left, .id = {row.key, {}}});
}

}  // namespace

Rows rows_of(const ViewState& state, const Scene& scene) {
  Rows rows;
  for (const cluster::Node& node : scene.nodes) add_node(state, node, scene.nodes.size() > 1, rows.all_gpus);
  for (std::size_t i = 0; i < rows.all_gpus.size(); ++i) {
    if (!passes(state, rows.all_gpus[i])) continue;
    rows.gpus.push_back(i);
    add_processes(state, scene, i, rows);
  }
  sort_processes(state, rows);
  if (state.tree) put_into_tree(rows.processes);
  return rows;
}

std::size_t selected_gpu(const ViewState& state, const Rows& rows) {
  for (std::size_t i = 0; i < rows.gpus.size(); ++i) {
    if (rows.all_gpus[rows.gpus[i]].key == state.gpu) return i;
  }
  return 0;
}

std::optional<std::size_t> selected_process(const ViewState& state, const Rows& rows) {
  if (rows.processes.empty()) return std::nullopt;
  const auto found =
      std::ranges::find_if(rows.processes, [&](const ProcessRow& row) { return row.id == state.process; });
  return found == rows.processes.end() ? 0 : static_cast<std::size_t>(found - rows.processes.begin());
}

std::optional<std::chrono::seconds> staleness(const cluster::Node& node, const Scene& scene) {
  if (scene.captured || scene.behind || node.reading == nullptr) return std::nullopt;
  constexpr std::chrono::milliseconds kLeast = std::chrono::seconds(2);
  const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(scene.now - node.seen);
  if (silent <= std::max(kLeast, scene.interval * 3)) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::seconds>(silent);
}

}  // namespace gpuwarden::view
