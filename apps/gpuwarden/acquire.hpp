// SPDX-License-Identifier: Apache-2.0
// From a command's request to GPUs that are chosen, and, if wanted, held.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

/// machine::Reservation::make() for the command's machine, that SIGINT, SIGTERM and SIGHUP end. `hold`: claim, not only
/// ask. A captured machine has no leases: `store` may be null for it.
Result<machine::Reservation> acquire(const Context& context, const Machine& machine, const Selection& selection,
                                     const lease::LeaseStore* store, bool hold);

/// The devices of a snapshot with the files that are locked for them on this machine.
std::vector<lease::Device> devices_of(const Machine& machine, const facts::Snapshot& snapshot);

/// For every GPU, why it was chosen or not.
std::string explain(const placement::Decision& decision);
/// Warnings to stderr: of the decision, and of what the leases do not guarantee.
void show_warnings(const Context& context, const Machine& machine, const machine::Reservation& reservation);

}  // namespace gpuwarden::cli
