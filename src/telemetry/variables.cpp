// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "gpuwarden/base/text.hpp"
#include "telemetry/variables_table.hpp"

namespace gpuwarden::telemetry {
namespace {

/// What people type, from nvidia-smi, nvtop, nvitop, dcgm and htop.
constexpr auto kAliases = std::to_array<Alias>({
    {"temp", "temperature"},
    {"util", "utilization"},
    {"gpu_util", "utilization"},
    {"gpu%", "utilization"},
    {"mem", "memory_used"},
    {"memory", "memory_used"},
    {"mem_used", "memory_used"},
    {"vram", "memory_used"},
    {"mem%", "memory_used_percent"},
    {"mem_percent", "memory_used_percent"},
    {"memory%", "memory_used_percent"},
    {"vram%", "memory_used_percent"},
    {"mem_total", "memory_total"},
    {"mem_free", "memory_free"},
    {"free", "memory_free"},
    {"mem_util", "memory_utilization"},
    {"mem_temp", "memory_temperature"},
    {"pwr", "power"},
    {"watts", "power"},
    {"power%", "power_percent"},
    {"power_cap", "power_limit"},
    {"fan", "fan_speed"},
    {"sm_clock", "clock_sm"},
    {"clock", "clock_sm"},
    {"mem_clock", "clock_memory"},
    {"graphics_clock", "clock_graphics"},
    {"enc", "encoder_utilization"},
    {"dec", "decoder_utilization"},
    {"pstate", "performance_state"},
    {"headroom", "temperature_headroom"},
    {"throttle_reason", "throttle"},
    {"pcie_gen", "pcie_generation"},
    {"tx", "pcie_sent"},
    {"rx", "pcie_received"},
    {"tensor", "tensor_active"},
    {"index", "gpu"},
    {"gpu_name", "name"},
    {"model", "name"},
    {"bus", "bus_id"},
    {"pci", "bus_id"},
    {"cc", "compute_capability"},
    {"hostname", "host"},
    {"node", "host"},
    {"cmd", "command"},
    {"owner", "user"},
    {"type", "process_type"},
    {"gpu_mem", "process_memory"},
    {"sm", "process_sm"},
    {"job", "slurm_job"},
    {"slowdown_temperature", "slowdown"},
    {"shutdown_temperature", "shutdown"},
    {"procs", "processes"},
});

/// For "clock_sm > 90%": the wholes of metrics.
constexpr auto kWholes = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"memory_used", "memory_total"},
    {"memory_free", "memory_total"},
    {"memory_reserved", "memory_total"},
    {"memory_of_processes", "memory_total"},
    {"bar1_used", "bar1_total"},
    {"bar1_free", "bar1_total"},
    {"power", "power_limit"},
    {"power_average", "power_limit"},
    {"power_instant", "power_limit"},
    {"power_limit", "power_limit_max"},
    {"clock_graphics", "clock_graphics_max"},
    {"clock_sm", "clock_sm_max"},
    {"clock_memory", "clock_memory_max"},
    {"clock_video", "clock_video_max"},
    {"pcie_width", "pcie_width_max"},
});

std::string_view whole_of_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kWholes, name, &decltype(kWholes)::value_type::first);
  return found == kWholes.end() ? std::string_view() : found->second;
}

Variable variable_of(const facts::Metric& metric) {
  Variable variable{.name = metric.id, .unit = metric.unit, .help = std::string(metric.help)};
  if (metric.kind == facts::MetricKind::counter) variable.kind = VariableKind::counter;
  variable.read = [&metric](const Subject& subject) -> Value {
    const auto value = subject.gpu != nullptr ? facts::value_of(metric, subject.gpu->sample) : std::nullopt;
    return value ? Value(*value) : Value();
  };
  return variable;
}

Variable variable_of(const DerivedMetric& metric) {
  Variable variable{.name = metric.id, .unit = metric.unit, .help = std::string(metric.help)};
  variable.read = [&metric](const Subject& subject) -> Value {
    const auto value = subject.gpu != nullptr ? metric.value(*subject.gpu) : std::nullopt;
    return value ? Value(*value) : Value();
  };
  return variable;
}

std::vector<Variable> make_variables() {
  std::vector<Variable> all;
  for (const auto& metric : facts::metrics()) all.push_back(variable_of(metric));
  for (const auto& metric : derived_metrics()) all.push_back(variable_of(metric));
  for (auto& variable : gpu_variables()) all.push_back(std::move(variable));
  for (auto& variable : user_variables()) all.push_back(std::move(variable));
  for (Variable& variable : all) {
    if (variable.whole.empty()) variable.whole = whole_of_metric(variable.name);
    const auto* const alias = std::ranges::find(kAliases, variable.name, &Alias::name);
    if (alias != kAliases.end()) variable.alias = alias->alias;
  }
  std::ranges::sort(all, {}, &Variable::name);
  return all;
}

/// Names and aliases.
const std::map<std::string_view, const Variable*>& variables_by_name() {
  static const auto kByName = [] {
    std::map<std::string_view, const Variable*> all;
    for (const Variable& variable : variables()) all.emplace(variable.name, &variable);
    for (const Alias& alias : kAliases) all.emplace(alias.alias, all.at(alias.name));
    return all;
  }();
  return kByName;
}

std::string show_number(double number, std::string_view unit) {
  if (unit == "B" && number >= 0) return format_size(Bytes(static_cast<std::uint64_t>(number)));
  if (unit == "B/s" && number >= 0) return format_size(Bytes(static_cast<std::uint64_t>(number))) + "/s";
  // Counters of millions are read digit by digit, not as powers of ten.
  constexpr double kManyDigits = 1e5;
  constexpr double kMostDigits = 1e15;
  const bool whole =
      std::abs(number) < kMostDigits && (std::abs(number) >= kManyDigits || std::trunc(number) == number);
  std::string digits = whole ? fmt::format("{:.0f}", number) : fmt::format("{:.6g}", number);
  if (unit.empty()) return digits;
  return digits + (unit == "%" ? "" : " ") + std::string(unit);
}

}  // namespace

std::span<const Alias> alias_table() { return kAliases; }

const std::vector<Variable>& variables() {
  static const std::vector<Variable> kVariables = make_variables();
  return kVariables;
}

const Variable* find_variable(std::string_view name) {
  const auto found = variables_by_name().find(to_lower(name));
  return found == variables_by_name().end() ? nullptr : found->second;
}

std::vector<std::string_view> aliases_of(const Variable& variable) {
  std::vector<std::string_view> all;
  for (const Alias& alias : kAliases) {
    if (alias.name == variable.name) all.push_back(alias.alias);
  }
  return all;
}

std::string closest_variable(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, variable] : variables_by_name()) names.emplace_back(known);
  return closest_match(to_lower(name), names);
}

Value value_of(const Variable& variable, const Subject& subject) { return variable.read(subject); }

std::string show(const Value& value, std::string_view unit) {
  std::vector<std::string> parts;
  if (const auto* number = std::get_if<double>(&value)) parts.push_back(show_number(*number, unit));
  if (const auto* texts = std::get_if<Texts>(&value)) parts = texts->known;
  if (const auto* numbers = std::get_if<Numbers>(&value)) {
    for (const double number : numbers->known) parts.push_back(show_number(number, unit));
  }
  return parts.empty() ? "-" : printable(join(parts, ", "));
}

}  // namespace gpuwarden::telemetry
