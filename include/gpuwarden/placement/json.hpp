// SPDX-License-Identifier: Apache-2.0
// A choice of GPUs as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::placement {

nlohmann::json to_json(const ModelFit& fit);

/// The decision as `gpuwarden select --json` prints it. Request and inputs are those that it was made of: where a model
/// does not fit, they tell what would make it fit.
nlohmann::json to_json(const Decision& decision, const Request& request, const Inputs& inputs);

}  // namespace gpuwarden::placement
