// SPDX-License-Identifier: Apache-2.0
#include "probe/pci_places.hpp"

#include <algorithm>
#include <ranges>

namespace gpuwarden::probe {
namespace {

using facts::GpuRecord;
using facts::GpuState;

bool is_placed(const GpuRecord& record) { return !record.gpu.pci_bus_id.empty(); }

/// Whether the known bus ids rise with the index, without which nothing can be concluded from the order.
bool is_in_order(const std::vector<GpuRecord>& records) {
  const std::string* last = nullptr;
  for (const GpuRecord& record : records) {
    if (!is_placed(record)) continue;
    if (last != nullptr && *last >= record.gpu.pci_bus_id) return false;
    last = &record.gpu.pci_bus_id;
  }
  return true;
}

/// Places records[begin, end), none of which is placed, between their neighbours, if there is only one way.
void place_run(const std::vector<PciGpu>& pci, std::size_t begin, std::size_t end, std::vector<GpuRecord>& records) {
  const auto run = [&] {
    return std::ranges::subrange(records.begin() + static_cast<long>(begin), records.begin() + static_cast<long>(end));
  };
  const bool asleep = std::ranges::all_of(run(), [](const GpuRecord& r) { return r.state == GpuState::suspended; });
  std::vector<const PciGpu*> between;
  for (const PciGpu& gpu : pci) {
    const bool after = begin == 0 || gpu.bus_id > records[begin - 1].gpu.pci_bus_id;
    const bool before = end == records.size() || gpu.bus_id < records[end].gpu.pci_bus_id;
    const bool served = !gpu.driver || *gpu.driver == "nvidia";
    if (after && before && served && (!asleep || gpu.suspended)) between.push_back(&gpu);
  }
  if (between.size() != end - begin) return;
  for (std::size_t i = begin; i < end; ++i) records[i].gpu.pci_bus_id = between[i - begin]->bus_id;
}

void place_all(const std::vector<PciGpu>& pci, std::vector<GpuRecord>& records) {
  for (std::size_t begin = 0; begin < records.size(); ++begin) {
    if (is_placed(records[begin])) continue;
    std::size_t end = begin;
    while (end < records.size() && !is_placed(records[end])) ++end;
    place_run(pci, begin, end, records);
    begin = end;
  }
}

void complete(const PciGpu& gpu, GpuRecord& record) {
  if (record.state == GpuState::suspended) {
    record = sleeping_record(gpu, record.gpu.index);
    return;
  }
  if (record.gpu.name.empty()) record.gpu.name = gpu.name;
  if (!record.gpu.numa_node) record.gpu.numa_node = gpu.numa_node;
  if (!record.gpu.cpu_affinity || record.gpu.cpu_affinity->empty()) record.gpu.cpu_affinity = gpu.cpu_list;
}

}  // namespace

bool needs_pci(const GpuRecord& record) {
  const facts::Gpu& gpu = record.gpu;
  const bool placed = is_placed(record) && record.state != GpuState::suspended;
  return !placed || gpu.name.empty() || !gpu.numa_node || gpu.cpu_affinity.value_or("").empty();
}

GpuRecord sleeping_record(const PciGpu& gpu, GpuIndex index) {
  return record_of(gpu, index, GpuState::suspended, "the GPU sleeps (runtime power management)",
                   "reading it would wake it: use --wake");
}

void place_by_pci(const std::vector<PciGpu>& pci, std::vector<GpuRecord>& records) {
  if (is_in_order(records)) place_all(pci, records);
  for (GpuRecord& record : records) {
    const auto found = std::ranges::find(pci, record.gpu.pci_bus_id, &PciGpu::bus_id);
    if (found != pci.end()) complete(*found, record);
  }
}

}  // namespace gpuwarden::probe
