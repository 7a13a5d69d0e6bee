// SPDX-License-Identifier: Apache-2.0
// `run --slurm`: submits, follows, tells.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

/// Fails with invalid_argument on what is asked of a cluster without --slurm.
Result<void> check_slurm_options(const Args& args);
/// The job's exit code.
Result<int> run_on_slurm(Context& context);
/// The batch script alone, to standard output.
Result<int> print_slurm_script(Context& context);
/// Follows a job that was submitted before; its exit code.
Result<int> follow_slurm_job(const Context& context, const std::string& id);

}  // namespace gpuwarden::cli
