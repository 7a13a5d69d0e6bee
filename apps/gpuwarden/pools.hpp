// SPDX-License-Identifier: Apache-2.0
// The pools of this machine's processes, where GPUWARDEN_MEMORY_DIR or the users' own folders tell of them.
#pragma once

#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/pools/memory_status.hpp"

namespace gpuwarden::cli {

/// None where a capture stands for the machine.
pools::Pools read_pools(const machine::Machine& machine);

}  // namespace gpuwarden::cli
