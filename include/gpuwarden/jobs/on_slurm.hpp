// SPDX-License-Identifier: Apache-2.0
// A job of Slurm's, from what people say about it to what slurm::run() takes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/doctor/survey.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/slurm/run.hpp"
#include "gpuwarden/slurm/site.hpp"

namespace gpuwarden::jobs {

/// What is asked of the cluster: "nodes", "gpus-per-node", "gpu-type", "time" ... with the names that sbatch has for
/// them. The job is named by its command where it is not by "job-name". Fails with invalid_argument, naming the value.
Result<slurm::Request> slurm_request_from(const NamedValues& values, const std::vector<std::string>& argv);

/// Fails with invalid_argument on what a run decides by itself where Slurm decides it.
Result<void> check_for_slurm(const NamedValues& values);
/// The same of names that a configuration sets, which the nodes read too; `file` is its name.
Result<void> check_file_for_slurm(std::span<const std::string> names, std::string_view file);

/// What a job of Slurm's is of, beside the values that say how it is run.
struct SlurmJobRequest {
  std::vector<std::string> argv;
  std::string program;               ///< gpuwarden on the nodes
  std::vector<std::string> options;  ///< of `gpuwarden run`, for the nodes, but for names_kept_from_nodes()
};

/// What is meant for whoever submits the job, and not sent to the nodes.
std::span<const std::string_view> names_kept_from_nodes();

/// A job that is ready to be submitted, or shown.
struct SlurmJob {
  slurm::BatchJob job;
  std::string log_directory;
  slurm::Policy policy;
  std::vector<std::string> decisions;
};
/// Reads what `gpuwarden run --slurm` has options for, for this site. Fails with invalid_argument also on what means
/// nothing together with Slurm, where the log directory cannot be written, and as slurm::place().
Result<SlurmJob> slurm_job_from(const NamedValues& values, SlurmJobRequest request, const slurm::Site& site);

/// The partition of that name, empty as it is. Fails with not_found.
Result<std::string> known_partition(const std::string& name, const slurm::Site& site);

/// All nodes of a partition (empty: of all) asked for their snapshot by `command` and judged, each by itself and
/// against the others.
doctor::Survey examine_nodes(slurm::Programs& programs, const slurm::Site& site, const std::string& partition,
                             const std::vector<std::string>& command, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::jobs
