// SPDX-License-Identifier: Apache-2.0
// What accounting mode remembers of processes, those that have ended included: pure functions over the shared state.
#pragma once

#include "sim/core/fleet.hpp"

namespace gpuwarden::sim {

/// Notes who is on the GPUs in accounting mode; true when that is news. When the table is full the oldest goes.
bool record_processes(Body& body, const FleetView& view);
/// The same where the view has to be made first; cheap while no GPU is in accounting mode.
bool record_processes(Body& body, const FleetSpec& spec);
/// Forgets what was seen on a GPU.
void forget_processes(Body& body, std::uint32_t gpu);

}  // namespace gpuwarden::sim
