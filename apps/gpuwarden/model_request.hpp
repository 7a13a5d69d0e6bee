// SPDX-License-Identifier: Apache-2.0
// `select`, `run` and `lease` with --model or --model-size: as many GPUs as a model needs.
#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::cli {

/// The work behind --model (a catalogue's name, a config.json, its folder) or --model-size (parameters, "7B", or
/// weights in 16 bit, "140GB"), and the options of workload_options.hpp; empty where neither is given. Without --task
/// the work is training; of a size in bytes it is inference, which holds the weights and little more. Fails with
/// invalid_argument on both at once, and on options of a model where there is none.
Result<std::optional<planning::Workload>> read_model_request(const Args& args);

/// What would make a model fit that does not, cheapest first, a line each; empty where the request has no model, or
/// where waiting is enough.
std::string ways_to_fit(const placement::Request& request, const placement::Inputs& inputs,
                        const placement::Decision& decision);

/// How the model fits the chosen GPUs, to standard error; nothing where the request has none.
void show_model_fit(const placement::Decision& decision);

}  // namespace gpuwarden::cli
