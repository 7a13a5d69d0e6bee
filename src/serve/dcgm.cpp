// SPDX-License-Identifier: Apache-2.0
// The names, units, labels and label order of dcgm-exporter, before and after its 4.9. Sources: legacy names and types
// from etc/default-counters.csv of 4.8.3; labels from internal/pkg/rendermetrics of 4.8; names of 4.9 from the field
// catalogue of DCGM 4.7 (docs.nvidia.com/datacenter/dcgm/latest/reference/field-identifiers.html) and what changed its
// unit from the release notes of 4.9.0. The types of 4.9 are those of the fields they replace.
#include <fmt/format.h>

#include <array>
#include <map>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/use.hpp"
#include "serve/exposition.hpp"
#include "serve/gpu_lines.hpp"

namespace gpuwarden::serve {
namespace {

using facts::MetricKind;

/// A field's name in one dialect and what our value is multiplied by.
struct DcgmName {
  std::string_view name;  ///< empty: not given in this dialect
  std::string_view unit;
  double factor = 1;
};

struct DcgmRow {
  DcgmName legacy;
  DcgmName now;
  std::string_view metric;  ///< the id in the metric table; empty: not measured
  MetricKind kind = MetricKind::gauge;
  std::string_view omitted = {};  ///< why it is not given where it is not
};

constexpr double kPercentOfRatio = 0.01;
constexpr double kMiB = 1.0 / 1048576;
constexpr double kHertz = 1e6;
constexpr std::string_view kUnconfirmed = "its name in 4.9 is not confirmed";

constexpr auto kRows = std::to_array<DcgmRow>({
    {{"DCGM_FI_DEV_SM_CLOCK", "MHz"}, {"DCGM_FI_DEV_SM_CLOCK_HERTZ", "Hz", kHertz}, "clock_sm"},
    {{"DCGM_FI_DEV_MEM_CLOCK", "MHz"}, {"DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "Hz", kHertz}, "clock_memory"},
    {{"DCGM_FI_DEV_MEMORY_TEMP", "C"}, {"DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "C"}, "memory_temperature"},
    {{"DCGM_FI_DEV_GPU_TEMP", "C"}, {"DCGM_FI_DEV_GPU_TEMP_CELSIUS", "C"}, "temperature"},
    {{"DCGM_FI_DEV_POWER_USAGE", "W"}, {"DCGM_FI_DEV_BOARD_POWER_WATTS", "W"}, "power"},
    {{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ", 1000},
     {"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "J"},
     "energy",
     MetricKind::counter},
    {{"DCGM_FI_PROF_PCIE_TX_BYTES", "B/s"}, {}, "pcie_sent", MetricKind::gauge, kUnconfirmed},
    {{"DCGM_FI_PROF_PCIE_RX_BYTES", "B/s"}, {}, "pcie_received", MetricKind::gauge, kUnconfirmed},
    {{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", ""},
     {"DCGM_FI_DEV_PCIE_REPLAY_TOTAL", ""},
     "pcie_replays",
     MetricKind::counter},
    {{"DCGM_FI_DEV_GPU_UTIL", "%"}, {"DCGM_FI_DEV_GPU_UTIL_RATIO", "0 to 1", kPercentOfRatio}, "utilization"},
    {{"DCGM_FI_DEV_MEM_COPY_UTIL", "%"},
     {"DCGM_FI_DEV_MEMORY_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "memory_utilization"},
    {{"DCGM_FI_DEV_ENC_UTIL", "%"}, {"DCGM_FI_DEV_ENC_UTIL_RATIO", "0 to 1", kPercentOfRatio}, "encoder_utilization"},
    {{"DCGM_FI_DEV_DEC_UTIL", "%"}, {"DCGM_FI_DEV_DEC_UTIL_RATIO", "0 to 1", kPercentOfRatio}, "decoder_utilization"},
    {{"DCGM_FI_DEV_POWER_VIOLATION", "ns", 1e9},
     {"DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", "s"},
     "slowdown_power",
     MetricKind::counter},
    {{"DCGM_FI_DEV_THERMAL_VIOLATION", "ns", 1e9},
     {"DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL", "s"},
     "slowdown_thermal",
     MetricKind::counter},
    {{"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "ns", 1e9}, {}, "slowdown_sync_boost", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "ns", 1e9}, {}, "slowdown_board_limit", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_LOW_UTIL_VIOLATION", "ns", 1e9}, {}, "slowdown_low_utilization", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_RELIABILITY_VIOLATION", "ns", 1e9}, {}, "slowdown_reliability", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_FB_FREE", "MiB", kMiB}, {"DCGM_FI_DEV_FB_FREE_BYTES", "B"}, "memory_free"},
    {{"DCGM_FI_DEV_FB_USED", "MiB", kMiB}, {"DCGM_FI_DEV_FB_USED_BYTES", "B"}, "memory_used"},
    {{"DCGM_FI_DEV_FB_RESERVED", "MiB", kMiB}, {"DCGM_FI_DEV_FB_RESERVED_BYTES", "B"}, "memory_reserved"},
    {{}, {"DCGM_FI_DEV_FB_CAPACITY_BYTES", "B"}, "memory_total", MetricKind::gauge, "new in 4.9"},
    {{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", ""},
     "ecc_corrected_volatile",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", ""},
     "ecc_uncorrected_volatile",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", ""},
     "ecc_corrected_aggregate",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", ""},
     "ecc_uncorrected_aggregate",
     MetricKind::counter},
    {{"DCGM_FI_DEV_RETIRED_SBE", ""},
     {"DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL", ""},
     "retired_pages_single_bit",
     MetricKind::counter},
    {{"DCGM_FI_DEV_RETIRED_DBE", ""},
     {"DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL", ""},
     "retired_pages_double_bit",
     MetricKind::counter},
    {{"DCGM_FI_DEV_RETIRED_PENDING", ""},
     {"DCGM_FI_DEV_PAGE_RETIRED_PENDING", ""},
     "retired_pages_pending",
     MetricKind::counter},
    {{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", ""},
     {"DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", ""},
     "remapped_rows_uncorrected",
     MetricKind::counter},
    {{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", ""},
     {"DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", ""},
     "remapped_rows_corrected",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ROW_REMAP_FAILURE", ""}, {"DCGM_FI_DEV_ROW_REMAP_FAILED", ""}, "remapped_rows_failed"},
    {{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "MB/s"},
     {"DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "B/s"},
     "",
     MetricKind::gauge,
     "NVML's rates are those of all traffic, DCGM's count the payload"},
    {{"DCGM_FI_DEV_VGPU_LICENSE_STATUS", ""},
     {"DCGM_FI_DEV_VGPU_LICENSE_STATUS", ""},
     "",
     MetricKind::gauge,
     "licences of virtual GPUs are not read"},
    {{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0 to 1"},
     {"DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "0 to 1"},
     "",
     MetricKind::gauge,
     "the graphics engine's share is not read"},
    {{"DCGM_FI_PROF_SM_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_SM_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "sm_active"},
    {{"DCGM_FI_PROF_SM_OCCUPANCY", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "0 to 1", kPercentOfRatio},
     "sm_occupancy"},
    {{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_TENSOR_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "tensor_active"},
    {{"DCGM_FI_PROF_DRAM_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_DRAM_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "dram_active"},
    {{"DCGM_FI_PROF_PIPE_FP64_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_FP64_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "fp64_active"},
    {{"DCGM_FI_PROF_PIPE_FP32_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_FP32_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "fp32_active"},
});

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
  if (options.hostname_label || !node.name.empty())
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
  for (const DcgmRow& row : kRows) write_row(out, row, name_in(row, options.dialect), lines);
  write_xids(out, options.dialect, lines);
  return out.finish();
}

std::vector<MetricName> dcgm_names(Dialect dialect) {
  std::vector<MetricName> names;
  for (const DcgmRow& row : kRows) {
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
