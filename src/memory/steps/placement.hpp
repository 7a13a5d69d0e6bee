// SPDX-License-Identifier: Apache-2.0
// Where blocks go whose lives are known beforehand, so that they need little room: dynamic storage allocation, solved
// by simple rules of which one usually fits.
#pragma once

#include <cstdint>
#include <span>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// A block that lives from operation `born` to operation `gone`.
struct PlannedBlock {
  Grains size = 0;
  std::uint32_t born = 0;
  std::uint32_t gone = 0;
  Grains start = 0;  ///< the answer
};

/// What a search for places may still cost, in gaps or blocks looked at: about a nanosecond each.
struct PlacementBudget {
  std::uint64_t left = 32'000'000;
};

/// Sweeps over time, forwards and backwards, by several rules: what lasts goes low, what is brief goes high. Whether
/// one of them fits into `room` grains; then every `start` is set. No two births or deaths have the same number. Takes
/// some 20 ns a block and rule.
bool place_by_time(std::span<PlannedBlock> blocks, Grains room, PlacementBudget& budget);

/// The largest first, each at the lowest place that is free during its life: better, and quadratic.
bool place_by_size(std::span<PlannedBlock> blocks, Grains room, PlacementBudget& budget);

}  // namespace gpuwarden::memory
