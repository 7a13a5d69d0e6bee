// SPDX-License-Identifier: Apache-2.0
// What is to be planned, as words ask for it: the model, its task, and GPUs that are named or a machine's.
//
//     auto question = read_plan_question(words, model_downloads(environment));
//     if (!words.has("gpus")) plan_for(*machine, *question);
//     auto plan = planning::answer(question->request);
#pragma once

#include <optional>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/manager/downloads.hpp"
#include "gpuwarden/planning/answer.hpp"
#include "gpuwarden/planning/json.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::manager {

struct PlanQuestion {
  planning::PlanRequest request;
  planning::PlanOrigin origin;
  bool single = false;  ///< "strategy" is single: one of the GPUs is planned for
};

/// The words of workload_from() and plan_request(), with "model" (a name, a config.json or its folder, read by
/// "family") or "params" ("7B", completed by sizes). Reads the config. Fails with invalid_argument, naming the word,
/// where none or two of them are given, and as load_model(), sized_model() and plan_request() do.
Result<PlanQuestion> read_plan_question(const planning::Words& words, const ModelDownloads& downloads = {});

/// Plans for the machine's GPUs, and for its CPU cores where none are named. Fails with unavailable, of a capture with
/// invalid_argument, where it has no GPU to plan for.
Result<void> plan_for(const machine::Machine& machine, PlanQuestion& question);

/// The work of "model" or "model-size" and the words of workload_from() about it; empty where no word is given. Fails
/// with invalid_argument on both at once, and on words about a model where there is none.
Result<std::optional<planning::Workload>> read_work(const planning::Words& words, const ModelDownloads& downloads = {});

}  // namespace gpuwarden::manager
