// SPDX-License-Identifier: Apache-2.0
// Who holds how much of each GPU's memory: what NVML tells of processes, beside what their pools tell of themselves.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/pools/published_pool.hpp"

namespace gpuwarden::pools {

/// What the processes' pools tell of themselves.
using Pools = std::vector<PublishedPool>;

struct MemoryStatus {
  facts::Snapshot snapshot;
  Pools pools;
};

/// The pools on a GPU or one of its MIG instances.
Pools pools_on(const facts::GpuRecord& record, const Pools& pools);

/// A process that holds memory on a GPU, and its pools there.
struct Holding {
  facts::GpuProcess process;
  Pools pools;
};

/// Who holds memory on this GPU, those with most first; processes that hold none that is known of are left out, and at
/// the end stand those that the driver does not list (as in some containers), with nothing known but the pid.
std::vector<Holding> holdings_on(const facts::GpuRecord& record, const Pools& pools);

/// Used memory that no listed process accounts for; empty where one of the figures is not known.
std::optional<Bytes> unaccounted_memory(const facts::GpuRecord& record);

nlohmann::json to_json(const PublishedPool& pool);

/// As `gpuwarden memory --json` prints it (docs/json.md).
nlohmann::json to_json(const MemoryStatus& status);

}  // namespace gpuwarden::pools
