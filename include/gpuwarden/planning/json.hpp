// SPDX-License-Identifier: Apache-2.0
// Plans as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/planning/answer.hpp"

namespace gpuwarden::planning {

/// Where the GPUs are from that are planned for.
struct PlanOrigin {
  bool simulated = false;              ///< the GPUs are a simulated fleet's
  std::string gpus_from;               ///< "--gpus", "this machine", a capture's name
  std::uint32_t other_gpus = 0;        ///< of the machine, of another kind than the one that is planned for
  std::vector<std::string> gpu_notes;  ///< what the count of the machine's GPUs leaves unsaid, a sentence each
};

/// The plan as `gpuwarden plan --json` prints it.
nlohmann::json to_json(const PlanAnswer& answer, const PlanOrigin& origin);

// Parts of it that other answers share.
nlohmann::json to_json(const Settings& settings);
nlohmann::json to_json(const std::vector<Change>& changes);

}  // namespace gpuwarden::planning
