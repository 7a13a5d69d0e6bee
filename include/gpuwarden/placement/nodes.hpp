// SPDX-License-Identifier: Apache-2.0
// Chooses GPUs on many nodes for one job. Pure, and the same for the same input.
//
//     const auto decision = select_on_nodes({.gpus = {.min_memory = 40_GiB}, .count = 64}, nodes);
//     for (const NodeShare& share : decision->shares) start_on(names[share.node], share.decision.selected);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::placement {

struct NodesRequest {
  Request gpus;             ///< what each GPU has to be; how many stands in `count`
  std::uint32_t count = 1;  ///< in all
};

/// What one node gives.
struct NodeShare {
  std::size_t node = 0;  ///< place in the input
  Decision decision;     ///< as select() has it, for this node's part
};

struct NodesDecision {
  bool satisfied = false;
  std::vector<NodeShare> shares;  ///< in the order of the input; empty where it is not satisfied
  std::uint32_t available = 0;    ///< GPUs that would do, on all nodes
  std::string missing;            ///< what is lacking
  /// Nodes that cannot be chosen from, and why: a driver that does not answer.
  std::vector<std::pair<std::size_t, std::string>> left_out;
};

/// On the fewest nodes that have so many; among these, where the fewest GPUs of the nodes are left over, then on nodes
/// that have given something away already, so that whole nodes are left for the next job; then on the first ones.
/// Within a node as select() chooses, by its wiring. GPUs that are not fit are none. Fails with invalid_argument for a
/// request that contradicts itself.
Result<NodesDecision> select_on_nodes(const NodesRequest& request, std::span<const Inputs> nodes);

/// What a node has to give, for choose_nodes().
struct NodeOffer {
  std::uint32_t free = 0;
  bool whole = false;  ///< nothing of it is taken
};
/// How many each node gives, by its place; empty: not enough. The counting half of select_on_nodes().
std::vector<std::uint32_t> choose_nodes(std::span<const NodeOffer> offers, std::uint32_t count);

}  // namespace gpuwarden::placement
