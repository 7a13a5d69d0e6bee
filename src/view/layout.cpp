// SPDX-License-Identifier: Apache-2.0
#include "view/layout.hpp"

#include <algorithm>

namespace gpuwarden::view {
namespace {

constexpr int kLeastCard = 6;
constexpr int kMostCard = 14;
constexpr int kCardWidth = 76;
constexpr int kLeastProcesses = 4;  ///< rows, with the head

/// Smaller terminals have no rows to spare for a heat map.
constexpr Extent kLeastForHeat{40, 16};
constexpr int kShareOfHeat = 5;  ///< of the rows, at most one in so many
constexpr int kGpusOfNode = 8;   ///< mostly: so nodes stand below each other

int divided_up(int value, int by) { return (value + by - 1) / by; }

/// Cards where they take at most half of the rows, or where they are asked for.
bool wants_cards(const ViewState& state, int gpus, int columns, int rows) {
  if (state.shape != Shape::automatic) return state.shape == Shape::cards && rows / 2 >= kLeastCard;
  return gpus > 0 && divided_up(gpus, columns) * kLeastCard <= rows / 2;
}

void place_cards(Layout& layout, int gpus, int processes, int rows) {
  layout.cards = true;
  const int lines = std::max(1, divided_up(gpus, layout.card_columns));
  // Rows that the processes do not need make taller graphs.
  const int most = std::max({kLeastCard, rows / 2, rows - std::max(processes + 2, rows / 3)});
  layout.card_height = std::clamp(most / lines, kLeastCard, kMostCard);
  const int shown = std::min(lines, most / layout.card_height);
  layout.gpus.height = shown * layout.card_height;
  layout.gpus_in_sight = static_cast<std::size_t>(shown) * static_cast<std::size_t>(layout.card_columns);
}

void place_lines(Layout& layout, int gpus, int processes, int body) {
  // A head of its own for each list; the processes keep a third, or as little as they need.
  const int for_processes =
      body < 6 ? 0 : std::clamp(body / 3, std::min(kLeastProcesses, processes + 1), processes + 1);
  const int lines = std::clamp(gpus, 1, std::max(1, body - for_processes - 1));
  layout.gpus.height = std::min(lines + 1, body);
  layout.gpus_in_sight = static_cast<std::size_t>(std::max(0, layout.gpus.height - 1));
}

HeatMap heat_map(int gpus, Rect body) {
  HeatMap heat{.area = body};
  heat.columns = std::max(1, body.width - body.width % kGpusOfNode);
  const int most = std::max(1, body.height / kShareOfHeat);
  heat.gpus_in_cell = static_cast<std::size_t>(divided_up(gpus, most * heat.columns));
  const int cells = divided_up(gpus, static_cast<int>(heat.gpus_in_cell));
  heat.area.height = divided_up(cells, heat.columns);
  return heat;
}

/// Places GPUs and processes below `top`.
void place_lists(Layout& layout, const ViewState& state, const Rows& rows, Extent extent, int top) {
  const int gpus = static_cast<int>(rows.gpus.size());
  const int processes = std::max(1, static_cast<int>(rows.processes.size()));
  const int body = std::max(0, extent.height - top - 1);
  layout.gpus = {0, top, extent.width, 0};
  if (wants_cards(state, gpus, layout.card_columns, extent.height))
    place_cards(layout, gpus, processes, body);
  else
    place_lines(layout, gpus, processes, body);
}

}  // namespace

Point HeatMap::place(std::size_t cell) const {
  return {area.x + static_cast<int>(cell) % columns, area.y + static_cast<int>(cell) / columns};
}

std::optional<std::size_t> HeatMap::gpu_at(Point at) const {
  if (!area.contains(at) || at.x - area.x >= columns) return std::nullopt;
  return static_cast<std::size_t>((at.y - area.y) * columns + at.x - area.x) * gpus_in_cell;
}

Rect Layout::gpu(std::size_t nth) const {
  const int at = static_cast<int>(nth);
  if (!cards) return {gpus.x, gpus.y + 1 + at, gpus.width, 1};
  const int width = gpus.width / card_columns;
  return {gpus.x + at % card_columns * width, gpus.y + at / card_columns * card_height,
          width - (card_columns > 1 ? 1 : 0), card_height};
}

Layout overview_layout(const ViewState& state, const Rows& rows, Extent extent) {
  Layout layout;
  const int gpus = static_cast<int>(rows.gpus.size());
  layout.header = {0, 0, extent.width, 1};
  layout.footer = {0, extent.height - 1, extent.width, 1};
  layout.sums = {0, 1, extent.width, rows.all_gpus.size() > 1 && extent.height > 8 ? 1 : 0};
  const int top = 1 + layout.sums.height;
  layout.card_columns = std::max(1, extent.width / kCardWidth);
  if (gpus > 0 && gpus < layout.card_columns) layout.card_columns = gpus;
  place_lists(layout, state, rows, extent, top);
  const bool fits = extent.width >= kLeastForHeat.width && extent.height >= kLeastForHeat.height;
  if (fits && layout.gpus_in_sight < rows.gpus.size()) {
    layout.heat = heat_map(gpus, {0, top, extent.width, std::max(0, extent.height - top - 1)});
    place_lists(layout, state, rows, extent, top + layout.heat.area.height);
  }
  const int below = layout.gpus.y + layout.gpus.height;
  const int left = std::max(0, extent.height - 1 - below);
  layout.processes = {0, below, extent.width, left >= 2 ? left : 0};
  layout.processes_in_sight = static_cast<std::size_t>(std::max(0, layout.processes.height - 1));
  return layout;
}

}  // namespace gpuwarden::view
