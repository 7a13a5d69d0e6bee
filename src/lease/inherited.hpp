// SPDX-License-Identifier: Apache-2.0
// Leases within a lease: a command that is started under a lease inherits its locks, and may use what these hold. Its
// own claims are locks of the next level, files of the lease directory alone, which keep the commands of one lease
// apart.
#pragma once

#include <optional>
#include <vector>

#include "gpuwarden/lease/lease_store.hpp"

namespace gpuwarden::lease {

/// Looks once, before this process takes locks of its own, which exclusive ones (flock) are open in it: the kernel's
/// word, from /proc/self/fdinfo.
void note_inherited_locks();

/// Where a claim of this process on a device is made.
struct Level {
  StoreOptions options;
  Device device;
  /// The inherited descriptors that hold the levels above; empty: none is held, the claim is on the device itself.
  std::vector<int> inherited;
};
Level level_of(const StoreOptions& options, const Device& device);

}  // namespace gpuwarden::lease
