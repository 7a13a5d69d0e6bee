// SPDX-License-Identifier: Apache-2.0
// Metrics with the labels and label order of dcgm-exporter, before and after its 4.9 (internal/pkg/rendermetrics of
// 4.8); names and units stand in cluster/dcgm_fields.hpp.
#include <fmt/format.h>

#include <map>

#include "gpuwarden/cluster/dcgm_fields.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/use.hpp"
#include "serve/exposition.hpp"
#include "serve/gpu_lines.hpp"

namespace gpuwarden::serve {
namespace {

using cluster::DcgmName;
using cluster::DcgmRow;
using facts::MetricKind;

/// The gauge of the last Xid, which is no metric of a reading, and the counter of all.
constexpr std::string_view kLastXid = "DCGM_FI_DEV_XID_ERRORS";
constexpr std::string_view kLastXidNow = "DCGM_FI_DEV_XID_ERROR";
constexpr std::string_view kXidTotal = "DCGM_EXP_XID_ERRORS_TOTAL";

const DcgmName& name_in(const DcgmRow& row, Dialect dialect) {
  return dialect == Dialect::dcgm_legacy ? row.legacy : row.now;
}

std::string help_of(const DcgmRow& row, const DcgmName& name) {
  const facts::Metric* metric = facts::find_metric(row.metric);
  std::string help(metric != nullptr ? metric->help : "");
  if (help.ends_with('.')) help.pop_back();
  return name.unit.empty() ? help + '.' : fmt::format("{} (in {}).", help, name.unit);
}

std::string identity(const facts::GpuRecord& record) {
  std::string labels;
  const std::uint32_t index = record.gpu.index.value;
  const auto minor = record.gpu.minor_number ? record.gpu.minor_number->value : static_cast<std::int64_t>(index);
  add_label(labels, "gpu", std::to_string(index));
  add_label(labels, "UUID", facts::identity_of(record).value);
  add_label(labels, "pci_bus_id", record.gpu.pci_bus_id);
  add_label(labels, "device", fmt::format("nvidia{}", minor));
  add_label(labels, "modelName", record.gpu.name);
  return labels;
}

std::vector<std::string> dcgm_labels(const NodeMetrics& node, const facts::GpuRecord& record,
                                     const MetricsOptions& options) {
  std::string labels = identity(record);
  const facts::Snapshot& snapshot = node.reading->snapshot;
  const bool legacy = options.dialect == Dialect::dcgm_legacy;
  // dcgm-exporter has it unless it is told not to.
  add_label(labels, legacy ? "Hostname" : "hostname", node.name.empty() ? snapshot.host : node.name);
  if (snapshot.driver_version)
    add_label(labels, legacy ? "DCGM_FI_DRIVER_VERSION" : "DCGM_FI_SYSTEM_DRIVER_VERSION", *snapshot.driver_version);
  const auto jobs = jobs_of(node, record);
  if (jobs.empty()) return {labels};
  std::vector<std::string> sets;
  for (const std::string& job : jobs) {
    add_label(sets.emplace_back(labels), "hpc_job", job);
  }
  return sets;
}

void write_row(Exposition& out, const DcgmRow& row, const DcgmName& name, std::span<const GpuLine> lines) {
  const facts::Metric* metric = facts::find_metric(row.metric);
  if (name.name.empty() || metric == nullptr) return;
  out.family(name.name, row.kind, help_of(row, name));
  for (const GpuLine& line : lines) {
    const auto value = facts::value_of(*metric, line.record->sample);
    if (!value) continue;
    for (const std::string& labels : line.labels) out.sample(labels, *value * name.factor);
  }
}

/// Calls `write` with every GPU's counts of Xids.
template <class Write>
void each_xid(std::span<const GpuLine> lines, Write write) {
  for (const GpuLine& line : lines) {
    if (!line.node->counts) continue;
    for (const XidCount& count : line.node->counts->xids) {
      if (count.gpu == line.record->gpu.uuid) write(line, count);
    }
  }
}

void write_xids(Exposition& out, Dialect dialect, std::span<const GpuLine> lines) {
  // No Xid yet is 0, as dcgm-exporter has it: the field holds a code, and none is 0.
  std::map<const GpuLine*, const XidCount*> last;
  each_xid(lines, [&](const GpuLine& line, const XidCount& count) {
    const XidCount*& kept = last[&line];
    if (kept == nullptr || count.last >= kept->last) kept = &count;
  });
  out.family(dialect == Dialect::dcgm_legacy ? kLastXid : kLastXidNow, MetricKind::gauge, "The last Xid.");
  for (const GpuLine& line : lines) {
    if (!line.node->counts) continue;
    const auto found = last.find(&line);
    for (const std::string& labels : line.labels)
      out.sample(labels, found == last.end() ? 0 : static_cast<double>(found->second->xid));
  }
  out.family(kXidTotal, MetricKind::counter, "Xids since the server was started, by code.");
  each_xid(lines, [&](const GpuLine& line, const XidCount& count) {
    std::string labels = line.labels.front();
    add_label(labels, "xid", std::to_string(count.xid));
    out.sample(labels, static_cast<double>(count.count));
  });
}

}  // namespace

std::string render_dcgm(std::span<const NodeMetrics> nodes, const MetricsOptions& options) {
  Exposition out(Format::text);
  const auto lines = gpu_lines(nodes, dcgm_labels, options);
  for (const DcgmRow& row : cluster::dcgm_rows()) write_row(out, row, name_in(row, options.dialect), lines);
  write_xids(out, options.dialect, lines);
  return out.finish();
}

std::vector<MetricName> dcgm_names(Dialect dialect) {
  std::vector<MetricName> names;
  for (const DcgmRow& row : cluster::dcgm_rows()) {
    const DcgmName& name = name_in(row, dialect);
    const DcgmName& other = dialect == Dialect::dcgm_legacy ? row.now : row.legacy;
    const bool given = !name.name.empty() && !row.metric.empty();
    // What has no name here is told under the one it has in the other dialect.
    names.push_back({std::string(name.name.empty() ? other.name : name.name),
                     row.kind == MetricKind::counter ? "counter" : "gauge", help_of(row, name), std::string(row.metric),
                     given ? "" : std::string(row.omitted)});
  }
  names.push_back(
      {std::string(dialect == Dialect::dcgm_legacy ? kLastXid : kLastXidNow), "gauge", "The last Xid.", "", ""});
  names.push_back({std::string(kXidTotal), "counter", "Xids since the server was started, by code.", "", ""});
  return names;
}

}  // namespace gpuwarden::serve
