// SPDX-License-Identifier: Apache-2.0
// The model and its task behind the options of workload_options.hpp.
#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::cli {

/// The options about a model and its task that were given, and those named besides.
planning::Words words_of(const Args& args, const std::vector<std::string>& besides = {});
/// Whether --strategy is single, however it is written.
bool is_single(const Args& args);
/// A model by what the user has: a config.json, its folder, a catalogue name; with --family.
Result<planning::ModelShape> read_model(const Args& args, const std::string& name);

/// The work behind --model or --model-size and the options about it; empty where neither is given. Fails with
/// invalid_argument on both at once, and on options of a model where there is none.
Result<std::optional<planning::Workload>> read_model_request(const Args& args);

}  // namespace gpuwarden::cli
