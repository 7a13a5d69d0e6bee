// SPDX-License-Identifier: Apache-2.0
// GPUs that a running program chooses for itself: what it has already, and what was reserved for it, does not stand in
// its way, as it does in everybody else's. Whose a lease is the kernel says: the locks that are open in the program,
// and who holds them.
//
//     auto chosen = choose_for(*machine, {.count = 2}, {.pids = {Pid{::getpid()}}}, visibility, clock);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::machine {

/// Who chooses.
struct Chooser {
  std::vector<Pid> pids;  ///< the process, and others of its own job (ranks under one launcher)
};

/// A decision on GPUs for the chooser itself.
struct OwnChoice {
  placement::Decision decision;
  facts::Snapshot snapshot;  ///< as it was read
  placement::Request request;
  std::vector<facts::Lease> others;  ///< leases that stood in the way
};

/// This process and those that it was started from (lease::own_ancestors).
std::vector<Pid> own_line();
/// The snapshot as a program sees it that was started within the lease of these devices: what its own line does there
/// is no stranger's use, and what the lease's commands have just done is past.
facts::Snapshot as_seen_within(facts::Snapshot snapshot, const std::vector<Uuid>& own);

/// The snapshot as it would be without these processes: on a GPU that they alone use, neither their memory nor the load
/// counts. With `devices`, without what they do on these GPUs and MIG instances alone.
facts::Snapshot without_processes(facts::Snapshot snapshot, const std::vector<Pid>& processes,
                                  const std::optional<std::vector<Uuid>>& devices = std::nullopt);

/// As Reservation::make() without holding: nothing is reserved, and those who wait in line go first. Of a captured
/// machine leases are not known. Fails as placement::select() and lease::LeaseStore::open() do.
Result<OwnChoice> choose_for(const Machine& machine, const placement::Request& request, const Chooser& chooser,
                             const placement::Visibility& visibility, Clock& clock);

/// The number by which CUDA knows a device in this process: by what CUDA shows it where it was started (`started`),
/// else by what it will show under `visibility`. Empty: hidden, or the order is not known.
std::optional<std::uint32_t> cuda_ordinal(const Uuid& device, const placement::Visibility& visibility,
                                          const facts::Snapshot& snapshot,
                                          const std::optional<std::vector<Uuid>>& started);

}  // namespace gpuwarden::machine
