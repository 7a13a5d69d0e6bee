// SPDX-License-Identifier: Apache-2.0
// What the options of `run` ask of the launcher; torchrun's names mean here what they mean there.
#pragma once

#include "command.hpp"
#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/launch/run.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

/// The run as far as it is known before any GPU is. Fails with invalid_argument, and as launch::plan_run().
Result<launch::RunPlan> read_plan(const Context& context, const Selection& selection);

/// "3", "0:3,1:1" of --redirects or --tee; no streams where it is not given. Fails with invalid_argument.
Result<launch::StreamChoice> streams_option(const Args& args, const std::string& key);

/// Of --max-restarts, --heal and the like. Fails with invalid_argument.
Result<healing::RestartPolicy> read_policy(const Args& args);

/// How the GPUs are read meanwhile, and what a simulated fleet shows of the job. Fails with invalid_argument, also
/// where what is written at the end cannot be.
Result<launch::RunOptions> read_run_options(const Args& args);

}  // namespace gpuwarden::cli
