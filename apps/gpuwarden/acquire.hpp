// SPDX-License-Identifier: Apache-2.0
// From a command's request to GPUs that are chosen, and, if wanted, held.
#pragma once

#include <string>

#include "gpuwarden/machine/reserve.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

/// What the command selects, as machine::reserve() takes it. Its warnings are told where it is refused.
machine::ReservationRequest reservation_of(const Selection& selection, bool hold = true);

/// machine::reserve(), which SIGINT, SIGTERM and SIGHUP end.
Result<machine::Reservation> reserve_heeding_signals(const Machine& machine, machine::ReservationRequest request,
                                                     const machine::Holder& holder);

/// machine::reserve() of what the command selects, which SIGINT, SIGTERM and SIGHUP end. `hold`: claim, not only ask.
/// `refused`, where it is given, gets the decision that there are no such GPUs.
Result<machine::Reservation> acquire(const Machine& machine, const Selection& selection, bool hold,
                                     const machine::Holder& holder, placement::Decision* refused = nullptr);

/// How the model fits the chosen GPUs, to standard error; nothing where the request has none.
void show_model_fit(const placement::Decision& decision);
/// Warnings to stderr: of the decision, and of what the leases do not guarantee.
void show_warnings(const Context& context, const Machine& machine, const machine::Reservation& reservation);

}  // namespace gpuwarden::cli
