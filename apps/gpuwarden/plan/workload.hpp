// SPDX-License-Identifier: Apache-2.0
// The model and its task behind the options of workload_options.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "command.hpp"
#include "gpuwarden/planning/workload.hpp"

namespace gpuwarden::cli {

/// An option's word as the tables have it: without space around it, lower case, '-' for '_'.
std::string normal(std::string_view word);
/// Whether --strategy is single, however it is written.
bool is_single(const Args& args);

/// A model by what the user has: a config.json, its folder, a catalogue name.
Result<planning::ModelShape> read_model(const Args& args, const std::string& name);
/// A model of which `--option` says the number of parameters ("7B"), with --hidden, --layers ... where they are given.
Result<planning::ModelShape> read_sized_model(const Args& args, const std::string& option);
/// Fails with invalid_argument where sizes are given that complete no guess; `option` is the one that would need them.
Result<void> refuse_sizes(const Args& args, const std::string& option);

/// --task, --precision ... on this model; `usual_task` stands where no --task is given. Fails with invalid_argument on
/// options that contradict each other, the task or the model.
Result<planning::Workload> read_workload(const Args& args, planning::ModelShape model, const std::string& usual_task);

/// "45%", "45", "0.45": more than 0, at most 1.
Result<std::optional<double>> share_option(const Args& args, const std::string& key);

}  // namespace gpuwarden::cli
