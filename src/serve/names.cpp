// SPDX-License-Identifier: Apache-2.0
#include "serve/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/dcgm_fields.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/telemetry/promql.hpp"
#include "gpuwarden/telemetry/variables.hpp"

namespace gpuwarden::serve {
namespace {

bool is_metric(std::string_view id) {
  return facts::find_metric(id) != nullptr || telemetry::find_derived_metric(id) != nullptr;
}

/// By what others call it; empty where nobody does.
std::string by_foreign_name(std::string_view name) {
  for (const facts::Metric& metric : facts::metrics()) {
    if (metric.prometheus == name) return std::string(metric.id);
  }
  for (const telemetry::DerivedMetric& metric : telemetry::derived_metrics()) {
    if (telemetry::prometheus_name(metric) == name) return std::string(metric.id);
  }
  for (const cluster::DcgmRow& row : cluster::dcgm_rows()) {
    const bool named = row.legacy.name == name || row.now.name == name;
    if (named && !row.metric.empty()) return std::string(row.metric);
  }
  return {};
}

/// "00000000:17:00.0" as "17:00.0": the domain 0 is left out, and letters are small.
std::string bus_id(std::string_view text) {
  std::string id = to_lower(text);
  const std::size_t colon = id.find(':');
  const bool has_domain = colon != std::string::npos && id.find(':', colon + 1) != std::string::npos;
  if (has_domain && id.find_first_not_of('0') >= colon) id.erase(0, colon + 1);
  return id;
}

bool is_called(const facts::GpuRecord& record, std::string_view name) {
  if (name.find(':') != std::string_view::npos) return bus_id(record.gpu.pci_bus_id) == bus_id(name);
  constexpr std::size_t kShortest = 5;  // "GPU-" alone names none
  return name.size() >= kShortest && facts::identity_of(record).value.starts_with(name);
}

}  // namespace

Result<std::string> metric_named(std::string_view name) {
  if (is_metric(name)) return std::string(name);
  const telemetry::Variable* variable = telemetry::find_variable(name);
  if (variable != nullptr && is_metric(variable->name)) return std::string(variable->name);
  if (std::string id = by_foreign_name(name); !id.empty()) return id;
  std::vector<std::string> known;
  for (const facts::Metric& metric : facts::metrics()) known.emplace_back(metric.id);
  for (const telemetry::DerivedMetric& metric : telemetry::derived_metrics()) known.emplace_back(metric.id);
  const std::string close = closest_match(name, known);
  return fail(ErrorCode::invalid_argument, fmt::format("unknown metric '{}'", printable(name)),
              close.empty() ? "/metrics and docs/metrics.md list them" : fmt::format("did you mean '{}'?", close));
}

Result<Uuid> gpu_named(std::string_view name, const facts::Snapshot& snapshot) {
  std::vector<Uuid> meant;
  std::vector<std::string> known;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    Uuid uuid = facts::identity_of(record);
    const bool is_index = parse_integer(name) == static_cast<std::int64_t>(record.gpu.index.value);
    if (is_index || uuid.value == name) return uuid;
    if (is_called(record, name)) meant.push_back(uuid);
    known.push_back(uuid.value);
    known.push_back(std::to_string(record.gpu.index.value));
  }
  if (meant.size() == 1) return meant.front();
  if (meant.size() > 1)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is the beginning of several UUIDs", printable(name)),
                "write more of it");
  const std::string close = closest_match(name, known);
  return fail(ErrorCode::not_found, fmt::format("there is no GPU '{}'", printable(name)),
              close.empty() ? "/api/v1/inventory lists them" : fmt::format("did you mean '{}'?", close));
}

}  // namespace gpuwarden::serve
