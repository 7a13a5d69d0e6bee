// SPDX-License-Identifier: Apache-2.0
// The deep test's results as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/deep.hpp"

namespace gpuwarden::facts {

nlohmann::json to_json(const DeepGpu& gpu);
nlohmann::json to_json(const DeepRun& run);
/// Reads back what to_json wrote, without loss. Fails with corrupt, naming the key.
Result<DeepGpu> deep_gpu_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::facts
