// SPDX-License-Identifier: Apache-2.0
// Whether somebody uses a GPU, as far as its facts and the leases tell.
#pragma once

#include <vector>

#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::facts {

/// What stands for a GPU's UUID where it could not be read: "index-3".
Uuid identity_of(const GpuRecord& record);

/// The lease on a GPU or on one of its instances; nullptr where there is none.
const Lease* find_lease(const std::vector<Lease>& leases, const GpuRecord& record);

/// Whether a GPU that is leased does nothing: no load, and less memory than a CUDA context takes.
bool is_idle_lease(const GpuRecord& record, const Lease* lease);

/// Whether a GPU has more load or memory in use than an idle desktop takes. Unknown figures count as none.
bool is_loaded(const GpuSample& sample);

/// Whether a GPU's memory has somebody behind it whom the driver does not list: the listed processes (which must be
/// known) account for less than is used by more than a CUDA context. Unknown use counts as such.
bool has_unlisted_user(const GpuRecord& record);

}  // namespace gpuwarden::facts
