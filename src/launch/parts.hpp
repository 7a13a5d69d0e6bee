// SPDX-License-Identifier: Apache-2.0
// The pieces a job is run with: environment, port, sweep, how a rank is started.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/rank_environment.hpp"
#include "launch/board.hpp"
#include "launch/process.hpp"

namespace gpuwarden::launch {

/// How long what is left of a job may take to end after SIGTERM, and how long it is tried to end it at all.
inline constexpr auto kSweepGrace = std::chrono::milliseconds(500);
inline constexpr auto kSweepPatience = std::chrono::seconds(10);

/// Whether the process is that user's; any is, where none is named.
bool belongs_to(pid_t pid, std::optional<uid_t> owner);

/// How long processes may take to end by themselves, and in all, and how often they are looked at.
struct EndPatience {
  std::chrono::milliseconds grace;
  std::chrono::milliseconds whole;
  std::chrono::milliseconds pause;
};
/// Ends what `find` finds, again and again: SIGTERM once, SIGKILL after the grace. Whether nothing is left.
bool end_processes(const std::function<std::vector<Process>()>& find, const EndPatience& patience, Clock& clock);

/// Processes that carry GPUWARDEN_RUN_ID=run_id in the environment they were started with; never the caller. With
/// `owner` only those of that user.
std::vector<pid_t> processes_of_run(const std::string& run_id, std::optional<uid_t> owner = {});
/// Ends all of them: SIGTERM, then SIGKILL after `grace`; until none is left or `patience` is over. Gives those left.
/// For what is out of the guardians' reach: they know the job's processes without reading what is written in them.
std::vector<pid_t> sweep_run(const std::string& run_id, std::chrono::milliseconds grace,
                             std::chrono::milliseconds patience, Clock& clock, std::optional<uid_t> owner = {});

/// What one rank is started with, made before any fork: after it only async-signal-safe calls are allowed.
struct RankPlan {
  ExecArray envp;
  UniqueFd in;  ///< empty: our standard input
  UniqueFd out;
  UniqueFd err;
  std::vector<unsigned long> cpus;  ///< an affinity mask as the kernel has it; empty: the launcher's
};

/// The mask of these CPUs.
std::vector<unsigned long> affinity_mask(const std::vector<unsigned>& cpus);

/// What the guardians need to know of a job.
struct Plan {
  const JobSpec* spec = nullptr;
  const Board* board = nullptr;
  ExecArray argv{std::vector<std::string>{}};
  std::vector<RankPlan> ranks;
  bool own_groups = true;  ///< false: the only rank stays in the launcher's process group, with its terminal
  pid_t launcher_group = 0;
  sigset_t ignored{};  ///< stays ignored in ranks
  rlimit files{};      ///< the limit that ranks get back
  /// Descriptors of leases within which the launcher was started: ranks have copies of those that they need.
  std::vector<int> outer_leases;
  Pipe exec_report;  ///< its end of file means that every rank has been executed or has failed to be
  Pipe hangup;       ///< guardians hold the write end: ranks are killed by the kernel when the last of them is gone
  std::string hangup_path;
  int group = -1;  ///< of the job's control group, or -1
  std::filesystem::path group_folder;
  std::filesystem::path record;
  int record_lock = -1;
};

/// In a new process: becomes the rank.
[[noreturn]] void become_rank(const Plan& plan, std::uint32_t local_rank);
/// In the inner guardian: a new process in the job's control group, if there is one; as fork() otherwise.
pid_t fork_rank(const Plan& plan);

/// Why a program could not be executed.
Error exec_error(int error, const std::string& program);

}  // namespace gpuwarden::launch
