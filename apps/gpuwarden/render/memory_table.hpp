// SPDX-License-Identifier: Apache-2.0
// Who holds how much of each GPU's memory.
#pragma once

#include <string>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/pools/memory_status.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// Rows for GPUs, below each one its processes, those with most memory first, and below those their pools.
std::string memory_table(const facts::Snapshot& snapshot, const pools::Pools& pools, const Style& style);

}  // namespace gpuwarden::cli
