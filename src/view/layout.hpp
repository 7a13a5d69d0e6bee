// SPDX-License-Identifier: Apache-2.0
// Where the parts of the overview stand, by the size of the terminal and what there is to show.
#pragma once

#include <cstddef>

#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/scene.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::view {

struct Layout {
  Rect header;
  Rect sums;       ///< height 0: one GPU is its own sum
  Rect gpus;       ///< of lines: with their head
  Rect processes;  ///< with their head; height 0: no room
  Rect footer;
  bool cards = false;
  int card_columns = 1;
  int card_height = 0;
  std::size_t gpus_in_sight = 0;
  std::size_t processes_in_sight = 0;

  /// The place of a GPU that is the `nth` in sight.
  Rect gpu(std::size_t nth) const;
};

Layout overview_layout(const ViewState& state, const Rows& rows, Extent extent);

}  // namespace gpuwarden::view
