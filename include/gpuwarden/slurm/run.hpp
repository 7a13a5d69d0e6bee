// SPDX-License-Identifier: Apache-2.0
// Submits a job, follows it to its end, and submits it again where that helps.
//
//     const auto programs = slurm::real_programs(environment);
//     const auto site = slurm::read_site(*programs);
//     auto placed = slurm::place(request, *site);
//     auto job = slurm::job_of(std::move(placed->job), {.log_directory = "/home/me/logs", .command = {"train.py"}});
//     const auto outcome = slurm::run(*programs, *job, {.log_directory = "/home/me/logs"}, {}, system_clock());
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/slurm/programs.hpp"
#include "gpuwarden/slurm/reports.hpp"
#include "gpuwarden/slurm/script.hpp"

namespace gpuwarden::slurm {

/// The job's number. Fails with unsatisfied and sbatch's own words, as output_of() where it cannot be asked.
Result<std::string> submit(Programs& programs, const BatchJob& job);
/// What is known of a job: the controller's answer, else the history's. Fails with not_found where
/// neither knows it, with unavailable where Slurm does not answer, which may pass.
Result<Job> find_job(Programs& programs, const std::string& id);
Result<void> cancel(Programs& programs, const std::string& id);
/// Fails with permission_denied where only administrators may.
Result<void> drain(Programs& programs, const NodeFault& fault);
/// The command that does it.
std::string drain_command(const NodeFault& fault);

/// What is heard of a job meanwhile; each may be empty.
struct FollowHooks {
  std::function<void(const Job&)> changed;          ///< its state, its reason or its nodes
  std::function<void(const Job&)> still;            ///< every kStillPeriod of nothing else
  std::function<bool(const Job&)> summary;          ///< every kStillPeriod while it runs: whether there was any to tell
  std::function<void(std::string_view)> output;     ///< what its log has got
  std::function<void(const std::string&)> warning;  ///< the controller does not answer
  std::stop_token stop;                             ///< leaves the job alone
};
inline constexpr std::chrono::seconds kStillPeriod{60};

/// Follows a job to its end. Fails with interrupted where it was stopped: the job goes on; with unavailable where
/// Slurm has not answered for kOutage.
Result<Job> follow(Programs& programs, const std::string& id, const std::filesystem::path& log,
                   const FollowHooks& hooks, Clock& clock);
inline constexpr std::chrono::minutes kOutage{30};

/// Which nodes are drained, where that is permitted, because a GPU of theirs failed.
enum class Drains { real, all, none };  ///< `all`: for a simulated GPU, too

struct Policy {
  std::string log_directory;  ///< as NodeRun has it
  std::uint32_t max_restarts = 0;
  Drains drains = Drains::real;
  std::string again_command;  ///< BatchJob::command of every try but the first; empty: the same
};

/// One try that failed, and what follows.
struct Attempt {
  Job job;
  Verdict verdict;
  bool again = false;  ///< another one follows
  std::vector<NodeFault> drained;
  std::vector<NodeFault> not_drained;  ///< that was not permitted, or not wanted
};

struct Hooks {
  FollowHooks follow;
  std::function<void(const std::string& id)> submitted;
  std::function<void(const Attempt&)> failed;
};

struct Outcome {
  Job job;  ///< of the last try
  std::vector<NodeReport> reports;
  std::vector<Attempt> failed;
  std::string log_directory;
};

/// The job's own, as exit_code_of(Job); but of several nodes that of the one that failed by itself, while srun tells
/// the greatest.
int exit_code_of(const Outcome& outcome);

/// Submits and follows, again and again: on other nodes where a node's GPU was at fault (a requeue would wait two
/// minutes). Fails as submit() and follow() do; where only another submission fails, or a stop came before it, the
/// outcome so far is the job's.
Result<Outcome> run(Programs& programs, BatchJob job, const Policy& policy, const Hooks& hooks, Clock& clock);

/// {"job", "exit_code", "nodes": [{"node", "report"}], "attempts"}.
nlohmann::json to_json(const Outcome& outcome);

}  // namespace gpuwarden::slurm
