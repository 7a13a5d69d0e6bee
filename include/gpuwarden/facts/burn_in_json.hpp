// SPDX-License-Identifier: Apache-2.0
// The burn-in's results as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/burn_in.hpp"

namespace gpuwarden::facts {

nlohmann::json to_json(const BurnInGpu& gpu);
nlohmann::json to_json(const BurnInRun& run);
/// As `gpuwarden bench gpu --json` prints it.
nlohmann::json bench_to_json(const BurnInRun& run, bool simulated);
/// Reads back what to_json wrote, without loss. Fails with corrupt, naming the key.
Result<BurnInGpu> burn_in_gpu_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::facts
