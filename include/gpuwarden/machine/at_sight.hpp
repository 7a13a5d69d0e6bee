// SPDX-License-Identifier: Apache-2.0
// What is not to be given work, where the GPUs themselves are looked at too: no monitor has to run for it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/machine/out_of_use.hpp"

namespace gpuwarden::machine {

/// Adds the GPUs that this look shows to be unfit (fitness::unfit_at_sight) and that nobody has taken out of use yet,
/// without those of which all was accepted (`view.accepted`). `by` of these is empty: nobody's word but their own.
void add_unfit_at_sight(lease::Disablings::View& view, const facts::Snapshot& snapshot);

/// All that is wrong at sight, of each GPU of which something is: in state error, with its causes.
std::vector<facts::Health> unfit_in(const facts::Snapshot& snapshot);

/// Asks enable() to put these back into use although the snapshot shows what is wrong with them: that is accepted, too.
/// `reason` and `by` as in EnableRequest.
EnableRequest enable_request(const facts::Snapshot& snapshot, std::vector<Uuid> gpus, std::string reason,
                             std::string by);

/// As out_of_use(), and what the snapshot shows; of a captured machine that alone.
Result<lease::Disablings::View> out_of_use_in(const Machine& machine, const facts::Snapshot& snapshot,
                                              std::chrono::system_clock::time_point now);

}  // namespace gpuwarden::machine
