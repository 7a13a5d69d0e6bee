// SPDX-License-Identifier: Apache-2.0
#include "model_request.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "plan/request.hpp"

namespace gpuwarden::cli {
namespace {

using namespace planning;
using Json = nlohmann::json;

std::int64_t whole(double bytes) { return std::llround(bytes); }

}  // namespace

void show_model_fit(const placement::Decision& decision) {
  if (decision.satisfied && decision.model) fmt::print(stderr, "gpuwarden: {}\n", decision.model->reason);
}

Json model_fit_json(const placement::Request& request, const placement::Inputs& inputs,
                    const placement::Decision& decision) {
  if (!decision.model) return nullptr;
  const placement::ModelFit& fit = *decision.model;
  const Estimate& estimate = fit.candidate.estimate;
  Json changes = Json::array();
  if (!decision.satisfied) {
    if (const auto plan = placement::plan_if_free(request, inputs)) changes = changes_json(plan->search.changes);
  }
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
          {"settings", settings_json(fit.candidate.settings)},
          {"changes", changes}};
}

}  // namespace gpuwarden::cli
