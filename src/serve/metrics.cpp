// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/telemetry/promql.hpp"
#include "gpuwarden/telemetry/variables.hpp"
#include "serve/exposition.hpp"
#include "serve/gpu_lines.hpp"
#include "serve/user_series.hpp"

namespace gpuwarden::serve {
namespace {

using facts::MetricKind;

struct DialectName {
  Dialect dialect;
  std::string_view name;
};
constexpr auto kDialects = std::to_array<DialectName>(
    {{Dialect::gpuwarden, "gpuwarden"}, {Dialect::dcgm_legacy, "dcgm-legacy"}, {Dialect::dcgm_4_9, "dcgm-4.9"}});

std::optional<double> number(const std::optional<Celsius>& value) {
  return value ? std::optional(static_cast<double>(value->value)) : std::nullopt;
}
std::optional<double> number(const std::optional<Milliwatts>& value) {
  return value ? std::optional(static_cast<double>(value->value) / 1000) : std::nullopt;
}
std::optional<double> flag(bool value) { return value ? 1 : 0; }

/// What is told of a GPU beside the metric table.
struct GpuFamily {
  std::string_view name;
  std::string_view help;
  std::optional<double> (*value)(const GpuLine&);
};
constexpr auto kGpuFamilies = std::to_array<GpuFamily>({
    {"gpuwarden_gpu_answers", "1 if the GPU answers, so that work can be given to it.",
     [](const GpuLine& line) { return flag(facts::is_usable(*line.record)); }},
    {"gpuwarden_gpu_leased", "1 if somebody has reserved the GPU through gpuwarden.",
     [](const GpuLine& line) { return line.node->leases_known ? flag(line.lease != nullptr) : std::nullopt; }},
    {"gpuwarden_gpu_temperature_slowdown_celsius", "Temperature at which the GPU slows down.",
     [](const GpuLine& line) { return number(line.record->gpu.temperature_slowdown); }},
    {"gpuwarden_gpu_temperature_shutdown_celsius", "Temperature at which the GPU shuts down.",
     [](const GpuLine& line) { return number(line.record->gpu.temperature_shutdown); }},
    {"gpuwarden_gpu_memory_temperature_max_celsius", "Highest temperature that the GPU's memory is made for.",
     [](const GpuLine& line) { return number(line.record->gpu.temperature_memory_max); }},
    {"gpuwarden_gpu_pcie_width_max_lanes", "PCIe lanes that the GPU and its slot have.",
     [](const GpuLine& line) {
       const auto& width = line.record->gpu.pcie_width_max;
       return width ? std::optional(static_cast<double>(width->value)) : std::nullopt;
     }},
    {"gpuwarden_gpu_power_limit_max_watts", "Highest power limit that can be set.",
     [](const GpuLine& line) { return number(line.record->gpu.power_limit_max); }},
});

constexpr auto kHealthStates = std::to_array<facts::HealthState>(
    {facts::HealthState::available, facts::HealthState::busy, facts::HealthState::error, facts::HealthState::disabled});
constexpr auto kLevels =
    std::to_array<telemetry::AlertLevel>({telemetry::AlertLevel::info, telemetry::AlertLevel::warning,
                                          telemetry::AlertLevel::error, telemetry::AlertLevel::critical});

void add_node(std::string& labels, const NodeMetrics& node) {
  if (!node.name.empty()) add_label(labels, "node", node.name);
}

std::vector<std::string> own_labels(const NodeMetrics& node, const facts::GpuRecord& record,
                                    const MetricsOptions& options) {
  std::string labels;
  add_node(labels, node);
  add_label(labels, "gpu", std::to_string(record.gpu.index.value));
  add_label(labels, "uuid", facts::identity_of(record).value);
  if (options.hostname_label) add_label(labels, "hostname", node.reading->snapshot.host);
  if (node.reading->snapshot.simulated) add_label(labels, "simulated", "true");
  return {labels};
}

void write_table(Exposition& out, std::span<const GpuLine> lines) {
  const auto family = [&](std::string_view name, MetricKind kind, std::string_view help, const auto& value) {
    out.family(name, kind, help);
    for (const GpuLine& line : lines) {
      if (const auto known = value(line)) out.sample(line.labels.front(), *known);
    }
  };
  for (const GpuFamily& row : kGpuFamilies) family(row.name, MetricKind::gauge, row.help, row.value);
  for (const facts::Metric& metric : facts::metrics()) {
    family(metric.prometheus, metric.kind, metric.help,
           [&](const GpuLine& line) { return facts::value_of(metric, line.record->sample); });
  }
  for (const telemetry::DerivedMetric& metric : telemetry::derived_metrics()) {
    family(telemetry::prometheus_name(metric), MetricKind::gauge, metric.help,
           [&](const GpuLine& line) { return metric.value(*line.record); });
  }
}

std::string label(std::string_view name, std::string_view value) {
  std::string text;
  add_label(text, name, value);
  return text;
}

void write_states(Exposition& out, std::span<const GpuLine> lines) {
  out.family("gpuwarden_gpu_health", MetricKind::gauge, "1 for the state of health that the GPU is judged to be in.");
  std::vector<std::string> states;
  for (const facts::HealthState state : kHealthStates) states.push_back(label("state", facts::to_string(state)));
  for (const GpuLine& line : lines) {
    for (std::size_t i = 0; line.health != nullptr && i < states.size(); ++i)
      out.sample(line.labels.front(), states[i], line.health->state == kHealthStates[i] ? 1 : 0);
  }
  out.family("gpuwarden_gpu_throttle_reason", MetricKind::gauge, "1 for each reason that holds the clocks back now.");
  std::vector<std::string> names;
  for (unsigned bit = 0; bit <= static_cast<unsigned>(facts::ThrottleReason::display_clock_setting); ++bit)
    names.push_back(label("reason", facts::to_string(static_cast<facts::ThrottleReason>(bit))));
  for (const GpuLine& line : lines) {
    const auto& reasons = line.record->sample.throttle_reasons;
    for (unsigned bit = 0; reasons && bit < names.size(); ++bit) {
      const bool holds = std::ranges::find(*reasons, static_cast<facts::ThrottleReason>(bit)) != reasons->end();
      out.sample(line.labels.front(), names[bit], holds ? 1 : 0);
    }
  }
}

void write_identity(Exposition& out, std::span<const GpuLine> lines) {
  out.family("gpuwarden_gpu_info", MetricKind::gauge, "What the GPU is; always 1.");
  for (const GpuLine& line : lines) {
    std::string labels = line.labels.front();
    add_label(labels, "name", line.record->gpu.name);
    add_label(labels, "pci_bus_id", line.record->gpu.pci_bus_id);
    add_label(labels, "state", facts::to_string(line.record->state));
    out.sample(labels, 1);
  }
  out.family("gpuwarden_gpu_hpc_job_info", MetricKind::gauge, "A batch job that runs on the GPU; always 1.");
  for (const GpuLine& line : lines) {
    for (const std::string& job : jobs_of(*line.node, *line.record)) {
      std::string labels = line.labels.front();
      add_label(labels, "hpc_job", job);
      out.sample(labels, 1);
    }
  }
}

std::string xid_labels(const NodeMetrics& node, const XidCount& count, const MetricsOptions& options) {
  std::string labels;
  add_node(labels, node);
  if (count.index) add_label(labels, "gpu", std::to_string(count.index->value));
  add_label(labels, "uuid", count.gpu.value);
  if (options.hostname_label) add_label(labels, "hostname", node.reading->snapshot.host);
  if (node.reading->snapshot.simulated) add_label(labels, "simulated", "true");
  add_label(labels, "xid", std::to_string(count.xid));
  return labels;
}

/// Of every GPU from the start: increase() sees the first Xid only where a 0 came before.
void write_xid_sums(Exposition& out, std::span<const GpuLine> lines) {
  out.family("gpuwarden_gpu_xids_total", MetricKind::counter,
             "Xids of any code that the driver reported since the server was started.");
  for (const GpuLine& line : lines) {
    if (!line.node->counts) continue;
    std::uint64_t sum = 0;
    for (const XidCount& count : line.node->counts->xids) {
      if (count.gpu == line.record->gpu.uuid) sum += count.count;
    }
    out.sample(line.labels.front(), static_cast<double>(sum));
  }
}

void write_xids(Exposition& out, std::span<const NodeMetrics> nodes, const MetricsOptions& options) {
  const auto each = [&](const auto& value) {
    for (const NodeMetrics& node : nodes) {
      if (!node.counts || !node.reading) continue;
      for (const XidCount& count : node.counts->xids) out.sample(xid_labels(node, count, options), value(count));
    }
  };
  out.family("gpuwarden_gpu_xid_errors_total", MetricKind::counter,
             "Xids that the driver reported since the server was started.");
  each([](const XidCount& count) { return static_cast<double>(count.count); });
  out.family("gpuwarden_gpu_xid_last_timestamp_seconds", MetricKind::gauge, "When the Xid was reported last.");
  each([](const XidCount& count) { return std::chrono::duration<double>(count.last.time_since_epoch()).count(); });
}

/// GPUs of one machine by what is known of their presence.
struct Presence {
  std::size_t expected = 0;
  std::size_t present = 0;
  std::size_t lost = 0;
};
std::optional<Presence> presence_of(const NodeMetrics& node) {
  if (!node.reading) return std::nullopt;
  if (node.counts) return Presence{node.counts->expected, node.counts->present, node.counts->lost};
  Presence presence{.expected = node.reading->snapshot.gpus.size()};
  presence.lost = static_cast<std::size_t>(
      std::ranges::count(node.reading->snapshot.gpus, facts::GpuState::lost, &facts::GpuRecord::state));
  presence.present = presence.expected - presence.lost;
  return presence;
}

void write_presence(Exposition& out, std::span<const NodeMetrics> nodes) {
  struct Row {
    std::string_view name;
    std::string_view help;
    std::size_t Presence::* field;
  };
  constexpr auto kRows = std::to_array<Row>({
      {"gpuwarden_gpus_expected", "GPUs that there should be.", &Presence::expected},
      {"gpuwarden_gpus_present", "GPUs that are listed and have not fallen off the bus.", &Presence::present},
      {"gpuwarden_gpus_lost", "GPUs that should be there and are not.", &Presence::lost},
  });
  for (const Row& row : kRows) {
    out.family(row.name, MetricKind::gauge, row.help);
    for (const NodeMetrics& node : nodes) {
      std::string labels;
      add_node(labels, node);
      if (const auto presence = presence_of(node)) out.sample(labels, static_cast<double>((*presence).*row.field));
    }
  }
}

void write_alerts(Exposition& out, std::span<const NodeMetrics> nodes) {
  out.family("gpuwarden_alerts_active", MetricKind::gauge, "Alerts that last, by level.");
  for (const NodeMetrics& node : nodes) {
    if (!node.reading) continue;
    for (const telemetry::AlertLevel level : kLevels) {
      std::string labels;
      add_node(labels, node);
      add_label(labels, "level", telemetry::to_string(level));
      out.sample(labels, static_cast<double>(std::ranges::count(node.alerts, level, &telemetry::Alert::level)));
    }
  }
}

void write_machine(Exposition& out, std::span<const NodeMetrics> nodes, const MetricsOptions& options) {
  std::string version;
  add_label(version, "version", options.version);
  out.family("gpuwarden_build_info", MetricKind::gauge, "The server's version; always 1.");
  out.sample(version, 1);
  const auto each = [&](const auto& write) {
    for (const NodeMetrics& node : nodes) {
      std::string labels;
      add_node(labels, node);
      write(labels, node);
    }
  };
  out.family("gpuwarden_up", MetricKind::gauge,
             "1 if the machine's GPUs were read a short time ago and its driver answers, else 0.");
  each([&](const std::string& labels, const NodeMetrics& node) {
    out.sample(labels, node.reading && !node.reading->snapshot.problem ? 1 : 0);
  });
  out.family("gpuwarden_info", MetricKind::gauge, "The machine and its driver; always 1.");
  each([&](std::string labels, const NodeMetrics& node) {
    if (!node.reading) return;
    const facts::Snapshot& snapshot = node.reading->snapshot;
    add_label(labels, "hostname", snapshot.host);
    add_label(labels, "driver_version", snapshot.driver_version.value_or(""));
    add_label(labels, "cuda_driver_version", snapshot.cuda_driver_version.value_or(""));
    add_label(labels, "source", snapshot.source);
    add_label(labels, "simulated", snapshot.simulated ? "true" : "false");
    out.sample(labels, 1);
  });
  out.family("gpuwarden_driver_answers", MetricKind::gauge,
             "1 if the driver answers, 0 if GPUs are listed without it.");
  each([&](const std::string& labels, const NodeMetrics& node) {
    if (node.reading) out.sample(labels, node.reading->snapshot.problem ? 0 : 1);
  });
  out.family("gpuwarden_reading_timestamp_seconds", MetricKind::gauge, "When the GPUs were read last.");
  each([&](const std::string& labels, const NodeMetrics& node) {
    if (!node.reading) return;
    out.sample(labels, std::chrono::duration<double>(node.reading->snapshot.taken_at.time_since_epoch()).count());
  });
  out.family("gpuwarden_reading_duration_seconds", MetricKind::gauge, "How long the last reading took.");
  each([&](const std::string& labels, const NodeMetrics& node) {
    if (node.reading) out.sample(labels, std::chrono::duration<double>(node.reading->took).count());
  });
}

std::vector<MetricName> own_names() {
  std::vector<MetricName> names;
  const auto add = [&](std::string_view name, MetricKind kind, std::string_view help, std::string_view from) {
    names.push_back({std::string(name), kind == MetricKind::counter ? "counter" : "gauge", std::string(help),
                     std::string(from), ""});
  };
  for (const GpuFamily& row : kGpuFamilies) add(row.name, MetricKind::gauge, row.help, "");
  for (const facts::Metric& metric : facts::metrics()) add(metric.prometheus, metric.kind, metric.help, metric.id);
  for (const auto& metric : telemetry::derived_metrics())
    add(telemetry::prometheus_name(metric), MetricKind::gauge, metric.help, metric.id);
  return names;
}

}  // namespace

std::string_view to_string(Dialect dialect) {
  return std::ranges::find(kDialects, dialect, &DialectName::dialect)->name;
}

std::optional<Dialect> dialect_from(std::string_view name) {
  const auto* const found = std::ranges::find(kDialects, name, &DialectName::name);
  return found == kDialects.end() ? std::nullopt : std::optional(found->dialect);
}

std::string_view content_type_of(Format format) {
  return format == Format::text ? "text/plain; version=0.0.4; charset=utf-8"
                                : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

Format format_for(std::string_view accept, Dialect dialect) {
  const bool wanted = accept.find("application/openmetrics-text") != std::string_view::npos;
  return wanted && dialect == Dialect::gpuwarden ? Format::openmetrics : Format::text;
}

std::string render_metrics(std::span<const NodeMetrics> nodes, const MetricsOptions& options, Format format) {
  if (options.dialect != Dialect::gpuwarden) return render_dcgm(nodes, options);
  Exposition out(format);
  const auto lines = gpu_lines(nodes, own_labels, options);
  // A GPU that tells everything.
  constexpr std::size_t kBytesOfGpu = 12000;
  out.expect(lines.size() * kBytesOfGpu);
  write_machine(out, nodes, options);
  write_presence(out, nodes);
  write_identity(out, lines);
  write_table(out, lines);
  write_states(out, lines);
  write_xid_sums(out, lines);
  write_xids(out, nodes, options);
  write_alerts(out, nodes);
  write_user_series(out, lines, options.most_series);
  return out.finish();
}

std::vector<MetricName> metric_names(Dialect dialect) {
  return dialect == Dialect::gpuwarden ? own_names() : dcgm_names(dialect);
}

std::string list_metrics(Dialect dialect) {
  std::string given;
  std::string omitted;
  for (const MetricName& name : metric_names(dialect)) {
    if (name.omitted.empty()) {
      given += fmt::format("{:<52} {:<8} {:<26} {}\n", name.name, name.type, name.from, name.help);
    } else {
      omitted += fmt::format("{:<52} {}\n", name.name, name.omitted);
    }
  }
  return omitted.empty() ? given : fmt::format("{}\nomitted:\n{}", given, omitted);
}

}  // namespace gpuwarden::serve
