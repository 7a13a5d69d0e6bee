// SPDX-License-Identifier: Apache-2.0
// Who holds how much of each GPU's memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/interop/published_pool.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// What the processes' pools tell of themselves.
using Pools = std::vector<interop::PublishedPool>;

/// Rows for GPUs, below each one its processes, those with most memory first, and below those their pools.
std::string memory_table(const facts::Snapshot& snapshot, const Pools& pools, const Style& style);

/// The pools on a GPU or one of its MIG instances.
Pools pools_on(const facts::GpuRecord& record, const Pools& pools);

/// Used memory that no listed process accounts for; empty where one of the figures is not known.
std::optional<Bytes> unaccounted_memory(const facts::GpuRecord& record);

}  // namespace gpuwarden::cli
