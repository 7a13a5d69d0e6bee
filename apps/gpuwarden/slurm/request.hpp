// SPDX-License-Identifier: Apache-2.0
// From the options of `run --slurm` to a job for Slurm.
#pragma once

#include "command.hpp"
#include "gpuwarden/jobs/on_slurm.hpp"

namespace gpuwarden::cli {

/// gpuwarden on the nodes: found under the same path as this program, as home directories and installations are.
std::string node_program(const Args& args);

/// What the command line asks for, and behind it a --config, on this site. Fails as jobs::slurm_job_from(), and for
/// what of the file means nothing with Slurm.
Result<jobs::SlurmJob> read_slurm_job(Context& context, slurm::Programs& programs,
                                      Result<slurm::Site> (*read_site)(slurm::Programs&));

}  // namespace gpuwarden::cli
