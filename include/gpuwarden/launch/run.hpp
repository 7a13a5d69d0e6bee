// SPDX-License-Identifier: Apache-2.0
// From what a user asks for to the report of a job that has run.
//
//     auto plan = plan_run({.argv = {"python", "train.py"}, .environment = current_environment(), .rank_per_gpu =
//     true}); complete(*plan, request);                                 // what the plan asks of the choice of GPUs
//     ... the GPUs are chosen and held ...
//     const ReadyRun job = ready(*plan, *machine, decision, snapshot, descriptors);
//     const auto report = run(job, *machine, {}, system_clock());
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/report.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/placement/binding.hpp"
#include "gpuwarden/placement/job_config.hpp"
#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::launch {

/// What is asked of a run besides its GPUs. What is left empty the configuration says, else torchrun's defaults.
struct RunRequest {
  std::vector<std::string> argv;
  Environment environment;  ///< what the job starts from
  placement::JobConfig config;
  std::optional<std::uint32_t> ranks;  ///< processes on this machine
  std::optional<bool> rank_per_gpu;    ///< as many as GPUs; empty: where the configuration is distributed
  std::optional<std::uint32_t> nodes;
  std::optional<std::uint32_t> least_nodes;  ///< so many will do, where the nodes meet (healing::MeetingPlace)
  std::optional<std::uint32_t> node_rank;
  std::optional<std::string> master_address;
  std::optional<std::uint16_t> master_port;
  /// What nodes that know no common port derive it from, and TORCHELASTIC_RUN_ID.
  std::optional<std::string> rendezvous_id;
  std::optional<std::string> role;
  bool one_device_per_rank = false;
  bool python_module = false;             ///< argv[0] names a module: python -u -m MODULE ...
  bool python_script = false;             ///< argv[0] is a program of Python's, executable or not
  std::optional<placement::BindTo> bind;  ///< bind each rank to CPUs near its GPU
  std::optional<std::filesystem::path> log_directory;
  StreamChoice redirects;  ///< with these and no log directory, one for this run is made below the temporary folder
  StreamChoice tee;
  std::optional<std::vector<std::uint32_t>> shown_ranks;  ///< as JobSpec has it
  std::optional<std::chrono::milliseconds> grace;
};

/// A run as far as it is known before any GPU is.
struct RunPlan {
  JobSpec job;
  std::optional<std::uint32_t> ranks;  ///< empty with rank_per_gpu
  bool rank_per_gpu = false;
  std::optional<std::uint32_t> least_nodes;
  std::string model;  ///< the configuration's model_name_or_path
  std::optional<placement::BindTo> bind;
};

/// Works out what needs no GPU, so that wrong input costs none, and makes the log directory. Fails with
/// invalid_argument where no command is given, the ranks do not fit the nodes, or the log directory cannot be written.
/// A Python program that is not executable ("train.py") is run by the Python of PYTHON_EXEC, else python3, unbuffered,
/// as torchrun would.
Result<RunPlan> plan_run(RunRequest request);

/// Adds what the plan asks of the choice of GPUs.
void complete(const RunPlan& plan, placement::Request& request);

/// Whether a program can be started, in a folder of the environment's PATH where it has no '/'. Fails with not_found or
/// permission_denied.
Result<void> check_program(const std::string& program, const Environment& environment);

/// A job with its GPUs.
struct ReadyRun {
  JobSpec job;
  std::vector<Uuid> gpus;          ///< watched while it runs
  std::vector<GpuIndex> places{};  ///< of each of them, when they were chosen
  std::string workload;            ///< what rules find their workload in: the command, the model's name
  std::optional<knowledge::Version> driver;
  std::vector<std::string> warnings;  ///< what is not as it was asked for: a rank that is bound to no CPUs
};

/// Gives the plan its GPUs: ranks, devices, and what a simulated fleet's programs need. `descriptors` are the locks
/// that the job's processes hold.
ReadyRun ready(const RunPlan& plan, const machine::Machine& machine, const placement::Decision& decision,
               const facts::Snapshot& snapshot, std::vector<int> descriptors);

struct RunOptions {
  std::chrono::milliseconds sample_period = std::chrono::seconds(1);
  machine::SimulatedLoad load;                      ///< what the ranks pretend to use on a simulated fleet
  std::span<const knowledge::SiteRule> rules;       ///< of the site, judged at the end
  std::function<void(const std::string&)> warning;  ///< each of JobEnd::warnings, at once; may be empty
  std::stop_token stop;                             ///< ends the job as SIGTERM would
  std::function<void(std::uint32_t rank, int exit_code)> first_failed;  ///< as JobHooks::first_failed
  /// As JobHooks::look_after; e.g. machine::Reservation::repair.
  std::function<std::vector<std::string>()> look_after;
  /// Each reading of the machine's GPUs, from another thread; e.g. recording::Recorder::add. May be empty.
  std::function<void(telemetry::Reading)> hear;
  /// As `hear`, of readings that need not have the processes.
  std::function<void(const telemetry::Reading&)> glance;
  /// A job that prints nothing and whose GPUs do no work (none: whose processes use no CPU time) for so long is ended,
  /// with the stacks of its ranks (RankEnd::stacks). 0: jobs may be silent as long as they like.
  std::chrono::milliseconds hang_timeout{0};
  TimeLimit time_limit;
  /// Asked every second while ranks run: a sentence where the job is to be ended to be started anew with others
  /// (EarlyEnd::Kind::regroup). May be empty.
  std::function<std::string()> regroup;
  /// One of the job's GPUs that is gone for so long ends a job that does not notice; 0: only all of them do.
  std::chrono::milliseconds lost_gpu_patience{0};
  /// A GPU that is far behind its peers for so long is warned of; 0: none is.
  std::chrono::milliseconds straggler_window = std::chrono::minutes(1);
  /// Asked about each straggler that was found, every second while it is not answered with true: whether the job is
  /// ended for its sake, to be started again without that GPU. Empty: stragglers are warned of.
  std::function<bool(const Straggler&)> ends_for;
  /// Whether the job is ended in order when the machine's memory, or the disk of its logs, runs out.
  bool heeds_emergencies = true;
};

/// Runs the job to its end, watches its GPUs and judges what they did. Fails as run_job does.
Result<RunReport> run(const ReadyRun& ready, const machine::Machine& machine, const RunOptions& options, Clock& clock);

}  // namespace gpuwarden::launch
