// SPDX-License-Identifier: Apache-2.0
// A job on this machine, from what people say about it to its end.
//
//     NamedValues values;
//     values.set("nproc-per-node", {"gpu"});
//     values.set("max-restarts", {"3"});
//     auto job = jobs::job_from(values, {.argv = {"python", "train.py"}, .environment = current_environment(),
//                                        .gpus = {.gpus = {.count = 2}}});
//     auto gpus = jobs::hold_gpus(*job, *machine, system_clock(), stop);
//     const auto healed = jobs::run(*job, *machine, std::move(*gpus), system_clock());
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "gpuwarden/placement/job_config.hpp"
#include "gpuwarden/recording/recorder.hpp"

namespace gpuwarden::jobs {

/// What a job is of, beside the values that say how it is run.
struct JobRequest {
  std::vector<std::string> argv;
  Environment environment;  ///< what the job starts from; Slurm's and torchrun's variables count
  placement::JobConfig config = {};
  machine::ReservationRequest gpus = {};
};

/// A job as far as it is known before any GPU is. Whoever runs it may set what is to be heard in `options`.
struct Job {
  NamedValues said;     ///< what it was read from: its time, and the files that are kept of it, are looked up there
  std::string command;  ///< as it was given, for those who see who holds the GPUs
  launch::RunPlan plan;
  machine::ReservationRequest gpus;
  healing::Options options;
  /// What was said of torchrun's rendezvous and means nothing here: a sentence each.
  std::vector<std::string> needless;
};

/// Reads what `gpuwarden run` has options for (docs/cli.md), by their long names: ranks, nodes and where they meet,
/// logs, restarts, time. Fails with invalid_argument, naming the value, for what is none and for values that contradict
/// each other; also where what is written at the end cannot be, and as launch::plan_run().
Result<Job> job_from(const NamedValues& values, JobRequest request);

/// The job's GPUs; nothing is held for the CPU, which the job runs on where it may and no GPUs can be had (its warning
/// is told that). `stop` ends the waiting. `refused`, where it is given, gets the decision that there are none. Fails
/// as machine::reserve().
Result<machine::Reservation> hold_gpus(const Job& job, const machine::Machine& machine, Clock& clock,
                                       const std::stop_token& stop = {}, placement::Decision* refused = nullptr);

/// A recording of these GPUs into the file of "record"; nullptr where that is not given, or there are no GPUs. Fails as
/// recording::Recorder::open().
Result<std::unique_ptr<recording::Recorder>> open_recorder(const Job& job, const machine::Reservation& gpus,
                                                           Clock& clock);

/// Runs the job, as often as it takes; its time begins now, the file of "status" is kept (launch::StatusFile). It ends
/// with healing::Options::run.stop, in pauses and while it waits for GPUs too. A program that is its launcher and
/// nothing else has the ranks take its signals (`starting` sets JobSpec::takes_signals) and lets `attend` wait with a
/// token that signals request. Fails as healing::run().
Result<healing::Healed> run(const Job& job, const machine::Machine& machine, machine::Reservation gpus, Clock& clock);

}  // namespace gpuwarden::jobs
