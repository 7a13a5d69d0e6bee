// SPDX-License-Identifier: Apache-2.0
// What people say about a run, by name: parts of job_from() that jobs elsewhere need as well. All fail with
// invalid_argument, naming the value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/value_names.hpp"
#include "gpuwarden/launch/restarts.hpp"
#include "gpuwarden/launch/run.hpp"

namespace gpuwarden::jobs {

/// The names that job_from(), open_recorder() and run() read.
std::span<const ValueName> run_names();

/// The time that a job has, of "time-limit", "signal" and Slurm, counted from now; without an end where none is known.
/// Fails with invalid_argument on a limit of 0 or without a unit, and on a signal without a limit or before the begin.
Result<launch::TimeLimit> time_limit_from(const NamedValues& values, const Environment& environment,
                                          const Clock& clock);
/// Of "max-restarts" (at most 1,000,000), "heal", "restart-delay" and "restart-arg". Fails with invalid_argument where
/// one of the last two has no "max-restarts".
Result<launch::RestartPolicy> restart_policy_from(const NamedValues& values);
/// How the GPUs are read meanwhile, when a job hangs ("hang-timeout", at least a second), and what a simulated fleet
/// shows of it. Fails with invalid_argument, also as check_outputs() does.
Result<launch::RunOptions> run_options_from(const NamedValues& values);
/// "3", "0:3,1:1" of "redirects" or "tee"; no streams where it is not given. Fails with invalid_argument on another
/// value.
Result<launch::StreamChoice> streams_from(const NamedValues& values, const std::string& name);
/// What is written at the end ("report", "post-mortem") is tried at the start: invalid_argument where it cannot be
/// written.
Result<void> check_outputs(const NamedValues& values);
/// N of "nproc-per-node", above 1; empty where it is not given, or is no number of torchrun's ("gpu", "cpu", "2:4").
/// Fails with invalid_argument above 4096.
Result<std::optional<std::uint32_t>> several_ranks(const NamedValues& values);

}  // namespace gpuwarden::jobs
