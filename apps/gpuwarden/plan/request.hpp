// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden plan` was asked: the model, the GPUs and the settings behind its options.
#pragma once

#include "command.hpp"
#include "gpuwarden/planning/answer.hpp"
#include "gpuwarden/planning/json.hpp"

namespace gpuwarden::cli {

struct PlanQuestion {
  planning::PlanRequest request;
  planning::PlanOrigin origin;
};

/// Model, GPUs and settings. Fails with what is wrong with which option; reads the config.json, and the machine only
/// where no --gpus are named.
Result<PlanQuestion> read_plan_question(Context& context);

}  // namespace gpuwarden::cli
