// SPDX-License-Identifier: Apache-2.0
// What `run` does so that a job lasts: other GPUs instead of those at fault, fewer and more of them, its time.
#pragma once

#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

/// The time that the job has, of --time-limit and --signal, from now; without an end where none is known. Fails with
/// invalid_argument.
Result<launch::TimeLimit> read_time_limit(const Context& context);

/// Of --time-limit, --signal and --checkpoint, as far as they can be wrong. Fails with invalid_argument.
Result<void> check_lasting(const Context& context, const Selection& selection);

/// Who gives the job its GPUs in later tries, and until when it runs: its time begins now.
Result<void> make_lasting(const Context& context, const machine::Machine& machine, const Selection& selection,
                          const launch::RunPlan& plan, healing::Options& options);

}  // namespace gpuwarden::cli
