// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/json.hpp"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/planning/json.hpp"

namespace gpuwarden::placement {
namespace {

using Json = nlohmann::json;

std::int64_t whole(double bytes) { return std::llround(bytes); }

/// The model with what would make it fit, where it does not.
Json model_json(const Decision& decision, const Request& request, const Inputs& inputs) {
  if (!decision.model) return nullptr;
  Json json = to_json(*decision.model);
  json["changes"] = Json::array();
  if (decision.satisfied) return json;
  if (const auto plan = plan_if_free(request, inputs)) json["changes"] = planning::to_json(plan->search.changes);
  return json;
}

}  // namespace

Json to_json(const ModelFit& fit) {
  const planning::Estimate& estimate = fit.candidate.estimate;
  return {{"name", fit.model},
          {"verdict", std::string(to_string(fit.fit))},
          {"reason", fit.reason},
          {"strategy", fit.candidate.name},
          {"gpu", fit.gpu},
          {"gpus", fit.gpus},
          {"low_bytes", whole(estimate.low())},
          {"expected_bytes", whole(estimate.expected())},
          {"high_bytes", whole(estimate.high())},
          {"needed_free_bytes", fit.needed.value},
          {"room_bytes", fit.room.value},
          {"settings", planning::to_json(fit.candidate.settings)}};
}

Json to_json(const Decision& decision, const Request& request, const Inputs& inputs) {
  Json selected = Json::array();
  for (const Device& device : decision.selected)
    selected.push_back({{"index", device.index.value},
                        {"uuid", device.uuid.value},
                        {"name", device.name},
                        {"mig", device.mig ? Json(*device.mig) : Json()}});
  Json rejected = Json::array();
  for (const Verdict& verdict : decision.verdicts) {
    if (verdict.chosen) continue;
    rejected.push_back({{"index", verdict.device.index.value},
                        {"uuid", verdict.device.uuid.value},
                        {"kind", to_string(verdict.kind)},
                        {"reason", verdict.reason},
                        {"transient", verdict.transient}});
  }
  return facts::answer({{"satisfied", decision.satisfied},
                        {"device", decision.cpu ? "cpu" : "cuda"},
                        {"cuda_visible_devices", decision.satisfied ? Json(cuda_visible_devices(decision)) : Json()},
                        {"selected", std::move(selected)},
                        {"rejected", std::move(rejected)},
                        {"missing", decision.missing},
                        {"leftover_runs", decision.leftover_runs},
                        {"strategy", decision.strategy ? Json(std::string(to_string(*decision.strategy))) : Json()},
                        {"model", model_json(decision, request, inputs)},
                        {"warnings", decision.warnings}},
                       inputs.snapshot.simulated);
}

}  // namespace gpuwarden::placement
