// SPDX-License-Identifier: Apache-2.0
#include "serve/gpu_lines.hpp"

#include <algorithm>

#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::serve {

std::vector<std::string> jobs_of(const NodeMetrics& node, const facts::GpuRecord& record) {
  if (!node.counts) return {};
  for (const std::string& name : {std::to_string(record.gpu.index.value), record.gpu.uuid.value}) {
    const auto found = node.counts->jobs.find(name);
    if (found != node.counts->jobs.end()) return found->second;
  }
  return {};
}

std::vector<GpuLine> gpu_lines(std::span<const NodeMetrics> nodes,
                               std::vector<std::string> (*labels_of)(const NodeMetrics&, const facts::GpuRecord&,
                                                                     const MetricsOptions&),
                               const MetricsOptions& options) {
  std::vector<GpuLine> lines;
  for (const NodeMetrics& node : nodes) {
    if (!node.reading) continue;
    for (const facts::GpuRecord& record : node.reading->snapshot.gpus) {
      const auto health = std::ranges::find(node.health, facts::identity_of(record), &facts::Health::uuid);
      lines.push_back({.node = &node,
                       .record = &record,
                       .health = health == node.health.end() ? nullptr : &*health,
                       .lease = facts::find_lease(node.reading->leases, record),
                       .labels = labels_of(node, record, options)});
    }
  }
  return lines;
}

}  // namespace gpuwarden::serve
