// SPDX-License-Identifier: Apache-2.0
#include "view/moves.hpp"

#include <algorithm>

#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

/// `at` moved by `by`, within `all` places.
std::size_t moved(std::size_t at, int by, std::size_t all) {
  if (all == 0) return 0;
  const auto there = static_cast<std::int64_t>(at) + by;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(there, 0, static_cast<std::int64_t>(all) - 1));
}

void select_gpu(ViewState& state, const Rows& rows, std::size_t at) { state.gpu = rows.all_gpus[rows.gpus[at]].key; }

/// GPUs in a row of cards: there, a step goes to the GPU below.
int gpus_in_a_row(const ViewState& state, const Situation& situation) {
  const Layout layout = overview_layout(state, situation.rows, situation.extent);
  return layout.cards ? layout.card_columns : 1;
}

void move_on_overview(ViewState& state, const Situation& situation, int by) {
  const Rows& rows = situation.rows;
  if (state.focus == Focus::processes) {
    const auto at = selected_process(state, rows);
    if (at) state.process = rows.processes[moved(*at, by, rows.processes.size())].id;
    return;
  }
  if (rows.gpus.empty()) return;
  const std::size_t at = selected_gpu(state, rows);
  const int columns = gpus_in_a_row(state, situation);
  const bool single = by == 1 || by == -1;
  const std::size_t there = moved(at, single ? by * columns : by, rows.gpus.size());
  // Below the last GPU the processes begin.
  if (there == at && by == 1 && !rows.processes.empty()) state.focus = Focus::processes;
  select_gpu(state, rows, there);
}

void click(ViewState& state, const Situation& situation, Point at) {
  const Rows& rows = situation.rows;
  if (state.page == Page::alerts && at.y >= 2) {
    state.alert = state.first_line + static_cast<std::size_t>(at.y - 2);
    return;
  }
  if (state.page != Page::overview) return;
  const Layout layout = overview_layout(state, rows, situation.extent);
  for (std::size_t i = 0; i < layout.gpus_in_sight && state.first_gpu + i < rows.gpus.size(); ++i) {
    if (!layout.gpu(i).contains(at)) continue;
    state.focus = Focus::gpus;
    return select_gpu(state, rows, state.first_gpu + i);
  }
  if (const auto gpu = layout.heat.gpu_at(at); gpu && *gpu < rows.gpus.size()) {
    state.focus = Focus::gpus;
    return select_gpu(state, rows, *gpu);
  }
  if (!layout.processes.contains(at) || at.y == layout.processes.y) return;
  const std::size_t nth = state.first_process + static_cast<std::size_t>(at.y - layout.processes.y - 1);
  if (nth >= rows.processes.size()) return;
  state.focus = Focus::processes;
  state.process = rows.processes[nth].id;
}

}  // namespace

void move_selection(ViewState& state, const Situation& situation, int by) {
  switch (state.page) {
    case Page::overview:
      return move_on_overview(state, situation, by);
    case Page::detail: {
      if (situation.rows.gpus.empty()) return;
      const GpuRow& row = situation.rows.all_gpus[situation.rows.gpus[selected_gpu(state, situation.rows)]];
      state.metric = moved(state.metric, by, row.record == nullptr ? 0 : told_metrics(*row.record).size());
      return;
    }
    case Page::alerts:
      state.alert = moved(state.alert, by, alert_rows(situation.scene).size());
      return;
    case Page::help:
      state.first_line = moved(state.first_line, by, help_lines(situation.extent.width));
      return;
  }
}

void move_sideways(ViewState& state, const Situation& situation, int steps) {
  const Rows& rows = situation.rows;
  const bool among_cards = state.focus == Focus::gpus && gpus_in_a_row(state, situation) > 1;
  if (!rows.gpus.empty() && (state.page == Page::detail || (state.page == Page::overview && among_cards)))
    return select_gpu(state, rows, moved(selected_gpu(state, rows), steps, rows.gpus.size()));
  constexpr int kColumns = 8;
  constexpr std::size_t kFarthest = 4096;
  if (state.page == Page::overview) state.command_from = moved(state.command_from, steps * kColumns, kFarthest);
}

void step_through_history(ViewState& state, const Situation& situation, int moments) {
  if (situation.scene.trail == nullptr) return;
  const auto& all = situation.scene.trail->moments();
  if (all.empty()) return;
  const auto found = std::ranges::lower_bound(all, situation.scene.slot, {}, &Moment::slot);
  const auto at = std::min(static_cast<std::size_t>(found - all.begin()), all.size() - 1);
  const std::size_t there = moved(at, moments, all.size());
  if (moments > 0 && there == all.size() - 1)
    state.held_at.reset();
  else
    state.held_at = all[there].slot;
}

bool apply_mouse(const Key& key, ViewState& state, const Situation& situation) {
  constexpr int kWheel = 3;
  if (key.code == KeyCode::click) {
    click(state, situation, key.at);
    return true;
  }
  if (key.code != KeyCode::wheel_up && key.code != KeyCode::wheel_down) return false;
  if (state.page == Page::overview) {
    const Layout layout = overview_layout(state, situation.rows, situation.extent);
    state.focus =
        layout.processes.contains(key.at) && !situation.rows.processes.empty() ? Focus::processes : Focus::gpus;
  }
  const int by = state.page == Page::overview && state.focus == Focus::gpus ? 1 : kWheel;
  const Focus focus = state.focus;
  move_selection(state, situation, key.code == KeyCode::wheel_up ? -by : by);
  state.focus = focus;
  return true;
}

}  // namespace gpuwarden::view
