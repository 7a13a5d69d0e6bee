// SPDX-License-Identifier: Apache-2.0
// Looking at what is leased.
#pragma once

#include "gpuwarden/lease/lease_store.hpp"
#include "lease/lock_file.hpp"

namespace gpuwarden::lease {

/// Whether a caller has the gate: with it locks are tried and what is left over is removed, without it only looked at.
enum class Care { under_gate, without_gate };

/// Of both locks of a device, the stronger.
LockState state_of(const StoreOptions& options, const Device& device, Care care);

/// All leases on `known` devices and on those that have a lock in the directory, and the waiting line.
Situation look(const StoreOptions& options, const std::vector<Device>& known, Care care, Names names);

}  // namespace gpuwarden::lease
