// SPDX-License-Identifier: Apache-2.0
// Who holds what as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/lease/verdicts.hpp"

namespace gpuwarden::lease {

/// The leases of a machine, as `gpuwarden lease --list --json` prints them; `fleets` are the simulated ones that share
/// its directory.
struct LeaseList {
  const Situation& situation;
  const Situation& fleets;
  bool simulated = false;  ///< the machine itself is a fleet
};

nlohmann::json to_json(const LeaseList& list);
nlohmann::json to_json(const Acceptance& acceptance);
/// What is out of use and what was accepted, as `gpuwarden disable --json` and `enable --json` print it.
nlohmann::json to_json(const Disablings::View& view, bool simulated);
/// A snapshot with each GPU's lease, who has disabled it, and who enabled it in spite of what is wrong with it, as
/// `gpuwarden list --json` prints it.
nlohmann::json to_json(const facts::Snapshot& snapshot, const std::vector<facts::Lease>& leases,
                       std::span<const facts::Disabling> disabled = {}, std::span<const Acceptance> accepted = {});

}  // namespace gpuwarden::lease
