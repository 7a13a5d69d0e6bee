// SPDX-License-Identifier: Apache-2.0
// The GPUs of all machines in the order in which every family lists them, with their labels written once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/serve/metrics.hpp"

namespace gpuwarden::serve {

struct GpuLine {
  const NodeMetrics* node = nullptr;
  const facts::GpuRecord* record = nullptr;
  const facts::Health* health = nullptr;
  const facts::Lease* lease = nullptr;
  /// One set; in DCGM's dialects one for each job on the GPU.
  std::vector<std::string> labels;
};

/// The jobs of a GPU, by its index or UUID.
std::vector<std::string> jobs_of(const NodeMetrics& node, const facts::GpuRecord& record);

/// Lines for every GPU of every node that has a reading; `labels_of` writes what stands between the braces.
std::vector<GpuLine> gpu_lines(std::span<const NodeMetrics> nodes,
                               std::vector<std::string> (*labels_of)(const NodeMetrics&, const facts::GpuRecord&,
                                                                     const MetricsOptions&),
                               const MetricsOptions& options);

/// The families of DCGM's dialects.
std::string render_dcgm(std::span<const NodeMetrics> nodes, const MetricsOptions& options);
std::vector<MetricName> dcgm_names(Dialect dialect);

}  // namespace gpuwarden::serve
