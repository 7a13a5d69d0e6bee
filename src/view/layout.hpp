// SPDX-License-Identifier: Apache-2.0
// Where the parts of the overview stand, by the size of the terminal and what there is to show.
#pragma once

#include <cstddef>
#include <optional>

#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/scene.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::view {

/// GPUs as cells, where not all of their lines or cards are in sight. Height 0: all are.
struct HeatMap {
  Rect area;
  int columns = 1;               ///< cells in a row
  std::size_t gpus_in_cell = 1;  ///< more than one where there are more GPUs than cells

  Point place(std::size_t cell) const;
  /// The first GPU of the cell there; of no cell: nothing.
  std::optional<std::size_t> gpu_at(Point at) const;
};

struct Layout {
  Rect header;
  Rect sums;  ///< height 0: one GPU is its own sum
  HeatMap heat;
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
