// SPDX-License-Identifier: Apache-2.0
// What a user calls a fleet, as the simulator understands it.
#pragma once

#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/machine/simulator.hpp"

namespace gpuwarden::machine {

/// A capture becomes a fleet file in the simulator's folder, named by its content, so that two programs with one
/// capture share a fleet; a fleet's name or YAML stays as it is.
Result<std::string> resolve_fleet(const std::string& spec, const SimulatorPlaces& places);

}  // namespace gpuwarden::machine
