// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "gpuwarden/profile/profiler.hpp"
#include "profile/units.hpp"

namespace gpuwarden::profile {
namespace {

using Json = nlohmann::json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json durations(const Durations& all) {
  return {{"count", all.count},
          {"total_seconds", seconds(all.total)},
          {"min_seconds", seconds(all.min)},
          {"mean_seconds", seconds(all.mean)},
          {"max_seconds", seconds(all.max)},
          {"p95_seconds", seconds(all.p95)}};
}

}  // namespace

Json to_json(const Operation& operation) {
  const auto peak = operation.memory_peak ? std::optional(operation.memory_peak->value) : std::nullopt;
  return {{"name", operation.name},
          {"wall", durations(operation.wall)},
          {"self_seconds", seconds(operation.self)},
          {"device", operation.device ? durations(*operation.device) : Json()},
          {"runs_told", operation.told},
          {"energy_joules", or_null(operation.joules)},
          {"utilization_percent", or_null(operation.utilization)},
          {"memory_peak_bytes", or_null(peak)},
          {"memory_change_bytes", or_null(operation.memory_change)}};
}

Json to_json(std::span<const Operation> operations) {
  Json list = Json::array();
  for (const auto& operation : operations) list.push_back(to_json(operation));
  return {{"operations", std::move(list)}};
}

}  // namespace gpuwarden::profile
