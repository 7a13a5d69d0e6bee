// SPDX-License-Identifier: Apache-2.0
// Which events stand on one row of a trace: viewers want those of a row to nest.
#pragma once

#include <span>
#include <vector>

#include "gpuwarden/profile/trace.hpp"

namespace gpuwarden::profile {

/// An event and its row: 0, or above for one that overlaps others of its thread without nesting.
struct Placed {
  const Event* event = nullptr;
  unsigned row = 0;
};

/// All events by thread, by start and the longer first, each on the first row of its thread where it nests.
std::vector<Placed> place_in_rows(std::span<const Event> events);

}  // namespace gpuwarden::profile
