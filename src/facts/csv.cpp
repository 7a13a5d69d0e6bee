// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::facts {
namespace {

using Text = std::optional<std::string>;

/// A GPU, and what is told of it.
struct Row {
  const Snapshot& snapshot;
  const GpuRecord& record;
  const Lease* lease;         ///< nullptr: it is not leased, or that is not known
  const Disabling* disabled;  ///< nullptr: it is in use, or that is not known
};

/// A field of the inventory, under nvidia-smi's name where it has one.
struct InventoryField {
  std::string_view name;
  std::string_view unit;  ///< "W": written behind the value, and into the header as "[W]"
  Text (*value)(const Row& row);
};

Text switched(const std::optional<bool>& flag) {
  if (!flag) return std::nullopt;
  return *flag ? "Enabled" : "Disabled";
}

Text filled(const std::string& text) { return text.empty() ? Text() : Text(text); }

template <auto Member>
Text text_of(const Row& row) {
  return row.record.gpu.*Member;
}
template <auto Member>
Text flag_of(const Row& row) {
  return switched(row.record.gpu.*Member);
}
template <auto Member>
Text number_of(const Row& row) {
  const auto& value = row.record.gpu.*Member;
  return value ? Text(fmt::format("{}", value->value)) : Text();
}
template <auto Member>
Text watts_of(const Row& row) {
  const auto& value = row.record.gpu.*Member;
  return value ? Text(fmt::format("{:.2f}", static_cast<double>(value->value) / 1000)) : Text();
}

Text mode_of(const Row& row) {
  if (!row.record.gpu.compute_mode) return std::nullopt;
  switch (*row.record.gpu.compute_mode) {
    case ComputeMode::shared:
      return "Default";
    case ComputeMode::exclusive_thread:
      return "Exclusive_Thread";
    case ComputeMode::prohibited:
      return "Prohibited";
    case ComputeMode::exclusive_process:
      return "Exclusive_Process";
  }
  return std::nullopt;
}

Text capability_of(const Row& row) {
  const auto& capability = row.record.gpu.compute_capability;
  return capability ? Text(fmt::format("{}.{}", capability->major, capability->minor)) : Text();
}

Text processes_of(const Row& row) {
  const auto& processes = row.record.processes;
  return processes ? Text(fmt::format("{}", processes->size())) : Text();
}

/// The state as one who looks for a free GPU needs it: "available" is what is free as far as can be seen.
Text state_of(const Row& row) {
  // What nobody may have is neither free nor leased.
  if (const auto word = out_of_use_word(row.record, row.disabled); !word.empty()) return std::string(word);
  const Use use = use_of(row.record);
  if (row.lease != nullptr && (use == Use::free || use == Use::unknown)) return "leased";
  switch (use) {
    case Use::no_instance:
    case Use::in_use:
    case Use::unknown:
      return std::string(key_of(use));
    default:
      return std::string(to_string(row.record.state));
  }
}

/// One value of each holder of the GPU's lease; "?" where they cannot be seen.
template <typename Value>
Text of_holders(const Row& row, Value value) {
  if (row.lease == nullptr) return std::nullopt;
  std::vector<std::string> values;
  for (const LeaseHolder& holder : row.lease->holders) values.push_back(value(holder));
  return values.empty() ? "?" : join(values, " ");
}

Text lease_user_of(const Row& row) {
  return of_holders(row, [](const LeaseHolder& holder) { return holder.user; });
}
Text lease_pid_of(const Row& row) {
  return of_holders(row, [](const LeaseHolder& holder) { return fmt::format("{}", holder.pid.value); });
}

Text disabled_of(const Row& row) {
  if (row.disabled == nullptr) return std::nullopt;
  return describe_disabling(*row.disabled, row.snapshot.taken_at);
}

constexpr auto kInventory = std::to_array<InventoryField>({
    {"index", "", [](const Row& row) { return Text(fmt::format("{}", row.record.gpu.index.value)); }},
    {"name", "", [](const Row& row) { return filled(row.record.gpu.name); }},
    {"uuid", "", [](const Row& row) { return filled(row.record.gpu.uuid.value); }},
    {"pci.bus_id", "", [](const Row& row) { return filled(row.record.gpu.pci_bus_id); }},
    {"serial", "", text_of<&Gpu::serial>},
    {"count", "", [](const Row& row) { return Text(fmt::format("{}", row.snapshot.gpus.size())); }},
    {"timestamp", "", [](const Row& row) { return Text(format_utc(row.snapshot.taken_at)); }},
    {"driver_version", "", [](const Row& row) { return row.snapshot.driver_version; }},
    {"state", "", state_of},
    {"disabled", "", disabled_of},
    {"lease.user", "", lease_user_of},
    {"lease.pid", "", lease_pid_of},
    {"processes", "", processes_of},
    {"compute_cap", "", capability_of},
    {"compute_mode", "", mode_of},
    {"persistence_mode", "", flag_of<&Gpu::persistence>},
    {"ecc.mode.current", "", flag_of<&Gpu::ecc_enabled>},
    {"mig.mode.current", "", flag_of<&Gpu::mig_enabled>},
    {"mig.mode.pending", "", flag_of<&Gpu::mig_pending>},
    {"accounting.mode", "", flag_of<&Gpu::accounting>},
    {"display_active", "", flag_of<&Gpu::display_active>},
    {"vbios_version", "", text_of<&Gpu::vbios_version>},
    {"power.min_limit", "W", watts_of<&Gpu::power_limit_min>},
    {"power.max_limit", "W", watts_of<&Gpu::power_limit_max>},
    {"power.default_limit", "W", watts_of<&Gpu::power_limit_default>},
    {"clocks.max.graphics", "MHz", number_of<&Gpu::clock_graphics_max>},
    {"clocks.max.sm", "MHz", number_of<&Gpu::clock_sm_max>},
    {"clocks.max.memory", "MHz", number_of<&Gpu::clock_memory_max>},
    {"pcie.link.gen.max", "", number_of<&Gpu::pcie_generation_max>},
    {"pcie.link.width.max", "", number_of<&Gpu::pcie_width_max>},
});

/// A name of nvidia-smi's for a metric.
struct SmiName {
  std::string_view name;
  std::string_view metric;
};
constexpr auto kSmiNames = std::to_array<SmiName>({
    {"utilization.gpu", "utilization"},
    {"utilization.memory", "memory_utilization"},
    {"utilization.encoder", "encoder_utilization"},
    {"utilization.decoder", "decoder_utilization"},
    {"utilization.jpeg", "jpeg_utilization"},
    {"utilization.ofa", "ofa_utilization"},
    {"memory.total", "memory_total"},
    {"memory.used", "memory_used"},
    {"memory.free", "memory_free"},
    {"memory.reserved", "memory_reserved"},
    {"temperature.gpu", "temperature"},
    {"temperature.memory", "memory_temperature"},
    {"temperature.gpu.tlimit", "temperature_margin"},
    {"power.draw", "power"},
    {"power.draw.average", "power_average"},
    {"power.draw.instant", "power_instant"},
    {"enforced.power.limit", "power_limit"},
    {"power.limit", "power_limit_requested"},
    {"clocks.gr", "clock_graphics"},
    {"clocks.current.graphics", "clock_graphics"},
    {"clocks.sm", "clock_sm"},
    {"clocks.current.sm", "clock_sm"},
    {"clocks.mem", "clock_memory"},
    {"clocks.current.memory", "clock_memory"},
    {"clocks.video", "clock_video"},
    {"clocks.current.video", "clock_video"},
    {"clocks.applications.graphics", "clock_graphics_application"},
    {"clocks.applications.memory", "clock_memory_application"},
    {"pstate", "performance_state"},
    {"fan.speed", "fan_speed"},
    {"pcie.link.gen.current", "pcie_generation"},
    {"pcie.link.width.current", "pcie_width"},
    {"encoder.stats.sessionCount", "encoder_sessions"},
    {"encoder.stats.averageFps", "encoder_frame_rate"},
    {"ecc.errors.corrected.volatile.total", "ecc_corrected_volatile"},
    {"ecc.errors.uncorrected.volatile.total", "ecc_uncorrected_volatile"},
    {"ecc.errors.corrected.aggregate.total", "ecc_corrected_aggregate"},
    {"ecc.errors.uncorrected.aggregate.total", "ecc_uncorrected_aggregate"},
    {"retired_pages.single_bit_ecc.count", "retired_pages_single_bit"},
    {"retired_pages.double_bit.count", "retired_pages_double_bit"},
});

/// One column: a field of the inventory or a metric, and whether nvidia-smi's unit is asked for.
struct Column {
  std::string_view name;
  std::string_view unit;
  const InventoryField* inventory = nullptr;
  const Metric* metric = nullptr;
  bool smi = false;
};

/// nvidia-smi counts memory in MiB, names no unit of temperatures, and calls the performance state P0.
std::string_view unit_of(const Metric& metric, bool smi) {
  if (smi && metric.unit == "B") return "MiB";
  if (smi && metric.unit == "°C") return "";
  return metric.unit;
}

std::optional<Column> column_of(std::string_view name) {
  const auto* const inventory = std::ranges::find(kInventory, name, &InventoryField::name);
  if (inventory != kInventory.end()) return Column{.name = name, .unit = inventory->unit, .inventory = inventory};
  const auto* const smi = std::ranges::find(kSmiNames, name, &SmiName::name);
  const bool known = smi != kSmiNames.end();
  const Metric* metric = find_metric(known ? smi->metric : name);
  if (metric == nullptr) return std::nullopt;
  return Column{.name = name, .unit = unit_of(*metric, known), .metric = metric, .smi = known};
}

Text value_of(const Column& column, const Row& row) {
  if (column.inventory != nullptr) return column.inventory->value(row);
  const auto value = value_of(*column.metric, row.record.sample);
  if (!value) return std::nullopt;
  if (column.smi && column.metric->id == "performance_state") return fmt::format("P{:.0f}", *value);
  if (column.smi && column.metric->unit == "B") return fmt::format("{:.0f}", std::floor(*value / (1 << 20)));
  if (column.smi && column.metric->unit == "W") return fmt::format("{:.2f}", *value);
  return fmt::format("{}", *value);
}

std::string cell(const Column& column, const Text& value, const CsvStyle& style) {
  if (!value) return "[N/A]";
  std::string text = printable(*value);
  if (text.find_first_of(",\"") != std::string::npos) {
    std::string quoted;
    for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    text = fmt::format("\"{}\"", quoted);
  }
  return style.units && !column.unit.empty() ? fmt::format("{} {}", text, column.unit) : text;
}

/// Up to five names that a mistyped one may have meant: the closest, then those it is a part of.
std::string names_like(std::string_view name) {
  constexpr std::size_t kMost = 5;
  const auto names = csv_field_names();
  std::vector<std::string> like;
  if (const std::string close = closest_match(name, names); !close.empty()) like.push_back(close);
  const std::string_view part = name.substr(0, name.find_first_of("._"));
  for (const std::string& other : names) {
    const bool related = part.size() > 2 && contains_ignoring_case(other, part);
    if (related && like.size() < kMost && std::ranges::find(like, other) == like.end()) like.push_back(other);
  }
  return like.empty() ? "gpuwarden list --fields help shows all" : "did you mean " + join(like, ", ") + "?";
}

}  // namespace

Result<std::optional<CsvStyle>> csv_style_from(std::span<const std::string> words) {
  CsvStyle style;
  bool csv = false;
  for (const std::string& word : words) {
    csv = csv || word == "csv";
    if (word == "noheader") style.header = false;
    if (word == "nounits") style.units = false;
    if (word != "csv" && word != "noheader" && word != "nounits")
      return fail(ErrorCode::invalid_argument, fmt::format("unknown format '{}'", printable(word)),
                  "csv, csv,noheader or csv,noheader,nounits");
  }
  return csv ? std::optional(style) : std::nullopt;
}

std::vector<std::string> csv_field_names() {
  std::vector<std::string> names;
  for (const InventoryField& field : kInventory) names.emplace_back(field.name);
  for (const SmiName& field : kSmiNames) names.emplace_back(field.name);
  for (const Metric& metric : metrics()) names.emplace_back(metric.id);
  return names;
}

std::span<const std::string_view> default_csv_fields() {
  static constexpr auto kFields =
      std::to_array<std::string_view>({"index", "name", "uuid", "state", "utilization.gpu", "memory.used",
                                       "memory.total", "temperature.gpu", "power.draw"});
  return kFields;
}

Result<std::string> to_csv(const Snapshot& snapshot, std::span<const std::string> fields, const CsvStyle& style,
                           std::span<const Lease> leases, std::span<const Disabling> disabled) {
  std::vector<Column> columns;
  std::vector<std::string> cells;
  for (const std::string& field : fields) {
    const auto column = column_of(field);
    if (!column)
      return fail(ErrorCode::invalid_argument, fmt::format("unknown field '{}'", printable(field)), names_like(field));
    columns.push_back(*column);
    cells.push_back(column->unit.empty() || !style.units ? field : fmt::format("{} [{}]", field, column->unit));
  }
  std::string text = style.header ? join(cells, ", ") + "\n" : "";
  for (const GpuRecord& record : snapshot.gpus) {
    cells.clear();
    const Row row{snapshot, record, find_lease(leases, record), find_disabling(disabled, identity_of(record))};
    for (const Column& column : columns) cells.push_back(cell(column, value_of(column, row), style));
    text += join(cells, ", ") + "\n";
  }
  return text;
}

}  // namespace gpuwarden::facts
