// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden plan` answers: the memory of one GPU under the strategy that is recommended or was asked for, a
// verdict for each strategy, and what follows from them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/planning/calibrate.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "gpuwarden/planning/search.hpp"
#include "gpuwarden/planning/serving.hpp"
#include "gpuwarden/planning/throughput.hpp"
#include "plan/settings.hpp"

namespace gpuwarden::cli {

struct PlanAnswer {
  PlanRequest request;
  planning::ModelFigures figures;
  planning::ParameterCount count;
  planning::Search search;  ///< one candidate where the strategy was given
  std::size_t chosen = 0;   ///< of its candidates: the one that is told of
  bool fits = false;
  std::vector<planning::ExplainedUse> lines;
  std::optional<planning::ServingPool> pool;
  std::optional<planning::Calibration> calibration;
  std::optional<planning::Speed> speed;      ///< empty: the GPU's peak is not known, or nothing fits
  std::optional<planning::Loading> loading;  ///< empty: the node's CPUs are not known

  const planning::Candidate& best() const { return search.candidates[chosen]; }
};

Result<PlanAnswer> answer_plan(PlanRequest request);
/// The contract's JSON (docs/json.md).
nlohmann::json plan_json(const PlanAnswer& answer);

}  // namespace gpuwarden::cli
