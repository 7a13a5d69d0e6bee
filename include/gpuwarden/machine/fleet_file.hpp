// SPDX-License-Identifier: Apache-2.0
// A captured machine as a fleet file.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::machine {

/// A fleet file (YAML, see sim/core/fleet_spec.hpp) that shows the machine of the snapshot: its GPUs, their readings as
/// they were, and their processes. A reading that a complete log (nvidia-smi -q, gpuwarden snapshot) does not tell is
/// one that the GPU does not have; what a shorter capture leaves out is left to the simulator. Fails with
/// invalid_argument where the snapshot has no GPU that can be shown.
Result<std::string> fleet_yaml_from(const facts::Snapshot& snapshot, std::string_view name, bool complete = true);

}  // namespace gpuwarden::machine
