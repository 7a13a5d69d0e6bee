// SPDX-License-Identifier: Apache-2.0
// Which CPUs the ranks of a job are bound to: those near their GPUs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/cpu.hpp"
#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::placement {

/// How close a rank is bound, as torchrun's --numa-binding names it.
enum class BindTo {
  node,          ///< every CPU of the GPU's NUMA node; ranks of one node share them
  socket,        ///< every CPU of the socket that the node belongs to
  exclusive,     ///< the node's cores, divided among its ranks: no two ranks share one
  core_complex,  ///< the CPUs under one last-level cache of the node, the ranks in turn
};
std::string_view to_string(BindTo bind);
/// "core-complex" and "core_complex" alike; nothing for another word.
std::optional<BindTo> bind_to_from(std::string_view name);

/// Where a rank's GPU is; empty fields are unknown.
struct RankPlace {
  std::optional<int> numa_node;
  std::optional<std::string> cpu_list;  ///< the CPUs near the GPU: "0-31,64-95"
};
RankPlace place_of(const facts::Gpu& gpu);

/// The CPUs of one rank.
struct RankBinding {
  std::vector<unsigned> cpus;  ///< ascending; empty: the rank is not bound, and `reason` says why
  std::size_t cores = 0;       ///< physical cores among them: as many compute threads make sense
  std::optional<int> numa_node;
  std::string reason;  ///< a sentence where the rank is not bound as asked; else empty
};

/// The binding of each rank, in the order of `ranks`. `cpus`: those that the job may use (its affinity mask), in any
/// order. A rank whose place is unknown on a machine with several NUMA nodes, or whose node has no CPU that the job may
/// use, stays unbound rather than bound wrongly. Where a node has fewer cores than ranks, `exclusive` lets ranks share.
std::vector<RankBinding> bind_ranks(std::span<const RankPlace> ranks, std::span<const facts::Cpu> cpus, BindTo bind);

}  // namespace gpuwarden::placement
