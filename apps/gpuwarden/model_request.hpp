// SPDX-License-Identifier: Apache-2.0
// How a model fits the GPUs that `select`, `run` and `lease` chose for it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::cli {

/// How the model fits the chosen GPUs, to standard error; nothing where the request has none.
void show_model_fit(const placement::Decision& decision);
/// The same, with the changes that would make it fit where it does not; null where the request has no model.
nlohmann::json model_fit_json(const placement::Request& request, const placement::Inputs& inputs,
                              const placement::Decision& decision);

}  // namespace gpuwarden::cli
