// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden plan` was asked: the model, the GPUs and the settings behind its options.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "command.hpp"
#include "gpuwarden/planning/answer.hpp"

namespace gpuwarden::cli {

/// Where the GPUs are from that are planned for.
struct PlanOrigin {
  bool simulated = false;              ///< the GPUs are a simulated fleet's
  std::string gpus_from;               ///< "--gpus", "this machine", a capture's name
  std::uint32_t other_gpus = 0;        ///< of the machine, of another kind than the one that is planned for
  std::vector<std::string> gpu_notes;  ///< what the count of the machine's GPUs leaves unsaid, a sentence each
};

struct PlanQuestion {
  planning::PlanRequest request;
  PlanOrigin origin;
};

/// Model, GPUs and settings. Fails with what is wrong with which option; reads the config.json, and the machine only
/// where no --gpus are named.
Result<PlanQuestion> read_plan_question(Context& context);

/// The contract's JSON (docs/json.md).
nlohmann::json plan_json(const planning::PlanAnswer& answer, const PlanOrigin& origin);
/// Parts of it that `select --model` shares.
nlohmann::json settings_json(const planning::Settings& settings);
nlohmann::json changes_json(const std::vector<planning::Change>& changes);

}  // namespace gpuwarden::cli
