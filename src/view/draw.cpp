// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/draw.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

bool too_small(Extent extent) { return extent.width < kLeast.width || extent.height < kLeast.height; }

void draw_page(const Frame& frame, Extent extent) {
  const Layout layout = overview_layout(frame.state, frame.rows, extent);
  const Rect page{0, 1, extent.width, extent.height - 2};
  draw_header(frame, layout.header);
  switch (frame.state.page) {
    case Page::overview:
      draw_sums(frame, layout.sums);
      draw_heat(frame, layout.heat);
      if (layout.cards)
        draw_cards(frame, layout);
      else
        draw_lines(frame, layout);
      draw_processes(frame, layout);
      break;
    case Page::detail:
      draw_detail(frame, page);
      break;
    case Page::alerts:
      draw_alerts(frame, page);
      break;
    case Page::help:
      draw_help(frame, page);
      break;
  }
  draw_footer(frame, layout.footer);
}

/// The first row in sight, so that the selected one is.
std::size_t scrolled(std::size_t first, std::size_t selected, std::size_t in_sight, std::size_t all) {
  if (in_sight == 0 || all <= in_sight) return 0;
  if (selected < first) first = selected;
  if (selected >= first + in_sight) first = selected - in_sight + 1;
  return std::min(first, all - in_sight);
}

void settle_overview(ViewState& state, const Rows& rows, Extent extent) {
  const Layout layout = overview_layout(state, rows, extent);
  if (!rows.gpus.empty()) {
    const std::size_t at = selected_gpu(state, rows);
    state.gpu = rows.all_gpus[rows.gpus[at]].key;
    std::size_t first = scrolled(state.first_gpu, at, layout.gpus_in_sight, rows.gpus.size());
    // Cards scroll by whole rows of cards.
    const auto columns = static_cast<std::size_t>(layout.cards ? layout.card_columns : 1);
    if (first % columns != 0) first += columns - first % columns;
    state.first_gpu = first;
  }
  const auto process = selected_process(state, rows);
  if (process) state.process = rows.processes[*process].id;
  state.first_process =
      scrolled(state.first_process, process.value_or(0), layout.processes_in_sight, rows.processes.size());
}

void settle_list(ViewState& state, const Scene& scene, const Rows& rows, Extent extent) {
  if (state.page == Page::detail && !rows.gpus.empty()) {
    const GpuRow& row = rows.all_gpus[rows.gpus[selected_gpu(state, rows)]];
    const std::size_t all = row.record == nullptr ? 0 : told_metrics(*row.record).size();
    state.metric = std::min(state.metric, std::max<std::size_t>(all, 1) - 1);
    state.first_line = scrolled(state.first_line, state.metric, detail_rows_in_sight(extent), all);
  }
  if (state.page == Page::alerts) {
    const std::size_t all = alert_rows(scene).size();
    state.alert = std::min(state.alert, std::max<std::size_t>(all, 1) - 1);
    state.first_line = scrolled(state.first_line, state.alert, alerts_in_sight(extent), all);
  }
  if (state.page == Page::help) {
    const auto in_sight = static_cast<std::size_t>(std::max(1, extent.height - 2));
    const std::size_t all = help_lines(extent.width);
    state.first_line = std::min(state.first_line, all > in_sight ? all - in_sight : 0);
  }
}

}  // namespace

Canvas draw(const ViewState& state, const Scene& scene, Extent extent) {
  Canvas canvas(extent, state.glyphs == Glyphs::ascii);
  if (too_small(extent)) {
    canvas.put({0, 0}, fmt::format("too small ({}x{} needed)", kLeast.width, kLeast.height), Tone::warning,
               std::max(extent.width, 1));
    return canvas;
  }
  const Rows rows = rows_of(state, scene);
  draw_page({state, scene, rows, canvas}, extent);
  return canvas;
}

void settle(ViewState& state, const Scene& scene, Extent extent) {
  const Rows rows = rows_of(state, scene);
  settle_overview(state, rows, extent);
  settle_list(state, scene, rows, extent);
}

std::vector<Pid> processes_in_sight(const ViewState& state, const Scene& scene, Extent extent) {
  if (state.page != Page::overview || too_small(extent)) return {};
  const Rows rows = rows_of(state, scene);
  const Layout layout = overview_layout(state, rows, extent);
  // Sorting by what the host knows needs all of them, and so does a tree.
  const bool all =
      state.tree || state.sort == SortBy::cpu || state.sort == SortBy::host_memory || state.sort == SortBy::time;
  std::vector<Pid> pids;
  for (std::size_t i = 0; i < rows.processes.size(); ++i) {
    const ProcessRow& row = rows.processes[i];
    const bool seen = i >= state.first_process && i < state.first_process + layout.processes_in_sight;
    if (row.process != nullptr && (all || seen) && rows.all_gpus[row.gpu].node->url.empty()) pids.push_back(row.id.pid);
  }
  std::ranges::sort(pids);
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

}  // namespace gpuwarden::view
