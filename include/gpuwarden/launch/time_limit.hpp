// SPDX-License-Identifier: Apache-2.0
// How long a job may run: what is asked for, and what Slurm leaves it.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/launch/job.hpp"

namespace gpuwarden::launch {

/// "USR1", "SIGUSR1", "10"; nothing where there is no such signal.
std::optional<int> parse_signal(std::string_view text);

/// "USR1@60", "TERM@2m", "10@30", as Slurm's --signal has it: which signal the ranks hear, and how long before the end
/// (without a time TimeLimit's own, without a unit seconds; at most 10^9 of them). Slurm's "R:" and "B:" before it say
/// whether the batch shell hears it, and are left out: here the ranks do. Without an end. Fails with invalid_argument.
Result<TimeLimit> parse_early_signal(std::string_view text);

/// How long until Slurm ends the job that this process is in, by SLURM_JOB_END_TIME (seconds since 1970); negative
/// where that is over, nothing where it is not told.
std::optional<std::chrono::milliseconds> left_by_slurm(const Environment& environment, Clock::WallTime now);

/// `limit` with its end, counted from `now`: whichever of the two comes first. Slurm ends its jobs itself, and its end
/// matters only where a limit of one's own, or a signal before it, is asked for.
TimeLimit with_end(TimeLimit limit, std::optional<std::chrono::milliseconds> own,
                   std::optional<std::chrono::milliseconds> slurm, Clock::SteadyTime now);

}  // namespace gpuwarden::launch
