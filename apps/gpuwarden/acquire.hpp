// SPDX-License-Identifier: Apache-2.0
// From a command's request to GPUs that are chosen, and, if wanted, held.
#pragma once

#include "gpuwarden/jobs/job.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

/// What the command selects, as machine::reserve() takes it. Its warnings are told where it is refused. `hold`: claim,
/// not only ask.
machine::ReservationRequest reservation_of(const Selection& selection, bool hold = true);

/// machine::reserve() for a program that waits for nothing else: signals end it.
Result<machine::Reservation> reserve_heeding_signals(const Machine& machine, machine::ReservationRequest request,
                                                     const machine::Holder& holder);

/// The job that a command line of `run` asks for, on what it selects. Fails as jobs::job_from().
Result<jobs::Job> read_job(const Context& context, const Selection& selection);

/// How the model fits the chosen GPUs, to standard error; nothing where the request has none.
void show_model_fit(const placement::Decision& decision);
/// Warnings to stderr: of the decision, and of what the leases do not guarantee.
void show_warnings(const machine::Reservation& reservation, const Machine& machine);

}  // namespace gpuwarden::cli
