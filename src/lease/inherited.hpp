// SPDX-License-Identifier: Apache-2.0
// Leases within a lease: a command that is started under a lease inherits its locks, and may use what these hold. Its
// own claims are locks of the next level, which keep the commands of one lease apart: of a file in memory that comes
// with the lease (its ground). That has no name, so that nobody who is not within the lease can lock, plant or remove
// it.
#pragma once

#include <optional>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/lease/lease_store.hpp"

namespace gpuwarden::lease {

/// Looks once, before this process takes locks of its own, which exclusive ones (flock) are open in it: the kernel's
/// word, from /proc/self/fdinfo.
void note_inherited_locks();
/// For tests: the next look is that of a program which was started here.
void forget_inherited_locks();

/// Those that took the inherited locks of devices that were looked at since (level_of), as far as they live, and init
/// where it holds one: that of a container may be the program that uses the lease.
std::vector<Pid> holders_above();

/// Where a claim of this process on a device is made.
struct Level {
  StoreOptions options;
  /// Within a lease its file is the lease's ground; empty where the lease brought none.
  Device device;
  /// The inherited descriptors that hold the levels above; empty: none is held, the claim is on the device itself.
  std::vector<int> inherited;
};
Level level_of(const StoreOptions& options, const Device& device);

/// Whether these are the options of a level within a lease.
bool is_within(const StoreOptions& options);

/// The ground of a claim that is made with these options, for those who will be started within it; none where the
/// kernel makes no such files.
Result<UniqueFd> make_ground(const StoreOptions& options, const Uuid& uuid);

}  // namespace gpuwarden::lease
