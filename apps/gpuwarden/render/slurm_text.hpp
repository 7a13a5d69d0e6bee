// SPDX-License-Identifier: Apache-2.0
// Slurm's nodes, jobs and reports, for people.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/slurm/run.hpp"
#include "gpuwarden/slurm/site.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// Free GPUs by type, then a row for each node.
std::string nodes_text(const slurm::Site& site, const std::string& partition, const Style& style);
std::string queue_text(const std::vector<slurm::Job>& jobs, const Style& style);
/// One job: what it does or why it waits, since when, and what would help.
std::string why_text(const slurm::Job& job, const slurm::Site& site);

/// "job 12 runs on gn[1-2], time limit 2:00:00": as it changes.
std::string job_line(const slurm::Job& job);
/// "job 12 runs for 0:05 of 2:00:00 on gn1".
std::string job_progress(const slurm::Job& job);
/// A line for each node: what its GPUs do just now.
std::string statuses_text(const std::vector<slurm::NodeStatus>& statuses);
/// What each node's run came to.
std::string reports_text(const std::vector<slurm::NodeReport>& reports, const Style& style);
/// A try that failed, its nodes, and what follows.
std::string slurm_attempt_text(const slurm::Attempt& attempt);

}  // namespace gpuwarden::cli
