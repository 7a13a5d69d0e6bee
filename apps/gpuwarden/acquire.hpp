// SPDX-License-Identifier: Apache-2.0
// From a request to GPUs that are chosen, and, if wanted, held.
#pragma once

#include <functional>
#include <optional>

#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/placement/select.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

struct Acquired {
  facts::Snapshot snapshot;
  placement::Decision decision;
  lease::HeldLeases leases;  ///< empty when only asked
};

/// Asks or claims until it is satisfied, its time is over, or a signal comes. `hold`: claim, not only ask. Fails with
/// unsatisfied (sentence what is missing), interrupted, or what select fails with. A captured machine has no leases:
/// `store` may be null for it.
Result<Acquired> acquire(const Context& context, const Machine& machine, const Selection& selection,
                         const lease::LeaseStore* store, bool hold);

/// For every GPU, why it was chosen or not.
std::string explain(const placement::Decision& decision);
/// How the model fits the chosen GPUs, to standard error; nothing where the request has none.
void show_model_fit(const placement::Decision& decision);
/// Warnings to stderr.
void show_warnings(const placement::Decision& decision);

}  // namespace gpuwarden::cli
