// SPDX-License-Identifier: Apache-2.0
// From the options of `run --slurm` to a job for Slurm.
#pragma once

#include "command.hpp"
#include "gpuwarden/slurm/run.hpp"
#include "gpuwarden/slurm/site.hpp"

namespace gpuwarden::cli {

/// What a --config asks for, behind what was typed: checked here, not only on the nodes, which read it too. Fails with
/// invalid_argument for what means nothing with Slurm.
Result<void> fall_back_to_config_for_slurm(Context& context);
/// Fails with invalid_argument on options of `run` that mean nothing together with Slurm.
Result<void> check_for_slurm(const Args& args);
/// What is asked of the cluster. Fails with invalid_argument.
Result<slurm::Request> read_slurm_request(const Args& args);

/// --partition, which must be one of the site's; empty without it. Fails with not_found.
Result<std::string> known_partition(const Args& args, const slurm::Site& site);
/// gpuwarden on the nodes: found under the same path as this program, as home directories and installations are.
std::string node_program(const Args& args);

/// A job that is ready to be submitted, or shown.
struct SlurmJob {
  slurm::BatchJob job;
  std::string log_directory;
  slurm::Policy policy;
  std::vector<std::string> decisions;
};
/// Of a command line of `run`, whose own options go to the nodes. Fails with invalid_argument also on those that mean
/// nothing together with Slurm, and where the log directory cannot be written.
Result<SlurmJob> read_slurm_job(const Context& context, const slurm::Site& site);

}  // namespace gpuwarden::cli
