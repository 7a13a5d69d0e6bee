// SPDX-License-Identifier: Apache-2.0
// GPUs that are held by what is left of a run whose launcher and guardians were all killed.
#pragma once

#include <span>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/facts/lease.hpp"

namespace gpuwarden::doctor {

/// Its finding's id.
inline constexpr std::string_view kLeftovers = "leftovers-hold-gpus";

/// Adds a finding for each such run: which GPUs its processes hold, and the command that ends them.
void add_leftovers(Examination& examination, const facts::Snapshot& snapshot, std::span<const facts::Lease> leases,
                   const Choice& choice = {});

}  // namespace gpuwarden::doctor
