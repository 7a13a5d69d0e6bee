// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/keys.hpp"

#include <algorithm>
#include <limits>

#include "view/frame.hpp"
#include "view/moves.hpp"
#include "view/prompts.hpp"

namespace gpuwarden::view {
namespace {

void quit(ViewState& state, const Situation& /*situation*/) { state.done = true; }

void go_to(ViewState& state, Page page) {
  state.page = page;
  state.first_line = 0;
}

void show_help(ViewState& state, const Situation& /*situation*/) {
  go_to(state, state.page == Page::help ? Page::overview : Page::help);
}
void show_alerts(ViewState& state, const Situation& /*situation*/) {
  go_to(state, state.page == Page::alerts ? Page::overview : Page::alerts);
}

/// One step out: of a page, then tags, then the filter.
void go_back(ViewState& state, const Situation& /*situation*/) {
  if (state.page != Page::overview) return go_to(state, Page::overview);
  if (!state.tagged.empty()) return state.tagged.clear();
  state.filter.reset();
  state.filter_text.clear();
}

void show_detail(ViewState& state, const Situation& situation) {
  const auto process = selected_process(state, situation.rows);
  if (state.focus == Focus::processes && process)
    state.gpu = situation.rows.all_gpus[situation.rows.processes[*process].gpu].key;
  go_to(state, Page::detail);
}

void other_list(ViewState& state, const Situation& /*situation*/) {
  state.focus = state.focus == Focus::gpus ? Focus::processes : Focus::gpus;
}

void ask_filter(ViewState& state, const Situation& /*situation*/) {
  state.prompt = FilterPrompt{.text = state.filter_text, .error = {}};
}
void ask_sort(ViewState& state, const Situation& /*situation*/) { state.prompt = SortPrompt{}; }

void sort_by_neighbour(ViewState& state, std::size_t step) {
  const auto& columns = sort_columns();
  const auto found = std::ranges::find(columns, state.sort, &SortColumn::by);
  const auto at = static_cast<std::size_t>(found - columns.begin());
  const SortColumn& next = columns[(at + step) % columns.size()];
  state.sort = next.by;
  state.descending = next.descending;
}
void sort_by_previous(ViewState& state, const Situation& /*situation*/) {
  sort_by_neighbour(state, sort_columns().size() - 1);
}
void sort_by_next(ViewState& state, const Situation& /*situation*/) { sort_by_neighbour(state, 1); }
void sort_up(ViewState& state, const Situation& /*situation*/) { state.descending = false; }
void sort_down(ViewState& state, const Situation& /*situation*/) { state.descending = true; }

void toggle_tree(ViewState& state, const Situation& /*situation*/) { state.tree = !state.tree; }

void tag(ViewState& state, const Situation& situation) {
  const auto at = selected_process(state, situation.rows);
  if (!at || situation.rows.processes[*at].process == nullptr) return;
  const ProcessId id = situation.rows.processes[*at].id;
  if (!state.tagged.erase(id)) state.tagged.insert(id);
  state.focus = Focus::processes;
  move_selection(state, situation, 1);
}
void untag(ViewState& state, const Situation& /*situation*/) { state.tagged.clear(); }

void kill_with(ViewState& state, const Situation& situation, int signal) {
  state.focus = Focus::processes;
  ask_for_signal(state, situation, signal);
}
void terminate(ViewState& state, const Situation& situation) { kill_with(state, situation, 15); }
void kill_hard(ViewState& state, const Situation& situation) { kill_with(state, situation, 9); }
void interrupt(ViewState& state, const Situation& situation) { kill_with(state, situation, 2); }

void toggle_cards(ViewState& state, const Situation& /*situation*/) { state.shape = Shape::cards; }
void toggle_lines(ViewState& state, const Situation& /*situation*/) { state.shape = Shape::lines; }
void automatic_shape(ViewState& state, const Situation& /*situation*/) { state.shape = Shape::automatic; }

void next_graphs(ViewState& state, const Situation& /*situation*/) {
  state.graphs = static_cast<Graphs>((static_cast<int>(state.graphs) + 1) % 4);
}
void next_glyphs(ViewState& state, const Situation& /*situation*/) {
  state.glyphs = static_cast<Glyphs>((static_cast<int>(state.glyphs) + 1) % 3);
}

constexpr std::array<unsigned, 6> kZooms{1, 2, 5, 10, 30, 60};
void zoom_out(ViewState& state, const Situation& /*situation*/) {
  const auto* const next = std::ranges::upper_bound(kZooms, state.zoom);
  state.zoom = next == kZooms.end() ? kZooms.front() : *next;
}
void zoom_in(ViewState& state, const Situation& /*situation*/) {
  const auto* const at = std::ranges::lower_bound(kZooms, state.zoom);
  state.zoom = at == kZooms.begin() ? kZooms.front() : *(at - 1);
}

void toggle_pause(ViewState& state, const Situation& situation) {
  if (state.held_at)
    state.held_at.reset();
  else
    state.held_at = situation.scene.slot;
}
void step_back(ViewState& state, const Situation& situation) { step_through_history(state, situation, -1); }
void step_forward(ViewState& state, const Situation& situation) { step_through_history(state, situation, 1); }
void leap_back(ViewState& state, const Situation& situation) { step_through_history(state, situation, -30); }
void leap_forward(ViewState& state, const Situation& situation) { step_through_history(state, situation, 30); }

void toggle_mouse(ViewState& state, const Situation& /*situation*/) {
  state.mouse = !state.mouse;
  state.requests.emplace_back(SetMouse{state.mouse});
  state.message = state.mouse ? "the mouse selects rows" : "the mouse selects text";
}
void redraw(ViewState& state, const Situation& /*situation*/) { state.requests.emplace_back(RedrawAll{}); }

void acknowledge(ViewState& state, const Situation& situation) {
  const auto rows = alert_rows(situation.scene);
  if (rows.empty()) return;
  const AlertRow& row = rows[std::min(state.alert, rows.size() - 1)];
  state.requests.emplace_back(Acknowledge{row.node->name, row.alert->id});
}

void up(ViewState& state, const Situation& situation) { move_selection(state, situation, -1); }
void down(ViewState& state, const Situation& situation) { move_selection(state, situation, 1); }
void page_up(ViewState& state, const Situation& situation) {
  move_selection(state, situation, -std::max(1, situation.extent.height / 2));
}
void page_down(ViewState& state, const Situation& situation) {
  move_selection(state, situation, std::max(1, situation.extent.height / 2));
}
void to_first(ViewState& state, const Situation& situation) {
  move_selection(state, situation, std::numeric_limits<int>::min() / 2);
}
void to_last(ViewState& state, const Situation& situation) {
  move_selection(state, situation, std::numeric_limits<int>::max() / 2);
}
void left(ViewState& state, const Situation& situation) { move_sideways(state, situation, -1); }
void right(ViewState& state, const Situation& situation) { move_sideways(state, situation, 1); }

constexpr unsigned kLists = on_overview | on_detail | on_alerts;

constexpr auto kKeyRows = std::to_array<KeyRow>({
    {{character('?'), character('h'), KeyCode::f1}, everywhere, "this help", show_help},
    {{character('q'), KeyCode::f10, character('Q')}, everywhere, "quit", quit},
    {{KeyCode::escape}, everywhere, "back; no tags, no filter", go_back},
    {{KeyCode::tab, KeyCode::back_tab}, on_overview, "between GPUs and processes", other_list},
    {{KeyCode::up, character('k')}, everywhere, "up", up},
    {{KeyCode::down, character('j')}, everywhere, "down", down},
    {{KeyCode::page_up}, everywhere, "half a screen up", page_up},
    {{KeyCode::page_down}, everywhere, "half a screen down", page_down},
    {{KeyCode::home, character('^'), control('A')}, everywhere, "first", to_first},
    {{KeyCode::end, character('$'), control('E')}, everywhere, "last", to_last},
    {{KeyCode::left}, kLists, "commands to the left; another GPU in its detail", left},
    {{KeyCode::right}, kLists, "commands to the right; another GPU in its detail", right},
    {{KeyCode::enter, KeyCode::f2}, on_overview, "all about the selected GPU, or the process's GPU", show_detail},
    {{KeyCode::enter, character('a')}, on_alerts, "acknowledge the alert", acknowledge},
    {{character('A')}, kLists, "alerts", show_alerts},
    {{character('/'), KeyCode::f4}, on_overview, "filter GPUs and processes", ask_filter},
    {{character('o'), KeyCode::f6}, on_overview, "sort processes: then a letter, a capital inverts", ask_sort},
    {{character(',')}, on_overview, "sort by the column before", sort_by_previous},
    {{character('.')}, on_overview, "sort by the next column", sort_by_next},
    {{character('+')}, on_overview, "smallest first", sort_up},
    {{character('-')}, on_overview, "largest first", sort_down},
    {{character('t')}, on_overview, "processes as a tree", toggle_tree},
    {{character(' ')}, on_overview, "tag the process", tag},
    {{character('U')}, on_overview, "no tags", untag},
    {{KeyCode::f9, character('T')}, on_overview, "end processes: asks; digits pick a signal", terminate},
    {{character('K')}, on_overview, "the same, with KILL", kill_hard},
    {{character('I')}, on_overview, "the same, with INT", interrupt},
    {{character('f')}, on_overview, "GPUs as cards", toggle_cards},
    {{character('c')}, on_overview, "GPUs as lines", toggle_lines},
    {{character('a')}, on_overview, "cards or lines by size", automatic_shape},
    {{character('g')}, on_overview, "graphs: load, power, temperature, traffic", next_graphs},
    {{character('b')}, kLists, "graphs of dots, blocks or ASCII", next_glyphs},
    {{character('z')}, kLists, "graphs span more time", zoom_out},
    {{character('Z')}, kLists, "graphs span less time", zoom_in},
    {{character('p')}, kLists, "pause; go on", toggle_pause},
    {{character('[')}, kLists, "a reading back", step_back},
    {{character(']')}, kLists, "a reading forward", step_forward},
    {{character('{')}, kLists, "30 readings back", leap_back},
    {{character('}')}, kLists, "30 readings forward", leap_forward},
    {{character('m')}, everywhere, "mouse selects rows, or text", toggle_mouse},
    {{control('L'), control('R'), KeyCode::f5, character('r')}, everywhere, "draw everything anew", redraw},
});

unsigned context_of(Page page) {
  switch (page) {
    case Page::overview:
      return on_overview;
    case Page::detail:
      return on_detail;
    case Page::alerts:
      return on_alerts;
    case Page::help:
      return on_help;
  }
  return on_overview;
}

}  // namespace

std::span<const KeyRow> key_rows() { return kKeyRows; }

void apply(const Key& key, ViewState& state, const Scene& scene, Extent extent) {
  if (key.code != KeyCode::resize) {
    state.message.clear();
    state.message_is_error = false;
  }
  if (apply_to_prompt(key, state)) return;
  const Rows rows = rows_of(state, scene);
  const Situation situation{scene, rows, extent};
  if (apply_mouse(key, state, situation)) return;
  const unsigned context = context_of(state.page);
  for (const KeyRow& row : kKeyRows) {
    const bool meant = std::ranges::find(row.keys, key.code) != row.keys.end() && key.code != KeyCode::none;
    if (meant && (row.contexts & context) != 0) return row.apply(state, situation);
  }
}

Result<void> set_filter(ViewState& state, std::string_view text) {
  if (text.find_first_not_of(' ') == std::string_view::npos) {
    state.filter.reset();
    state.filter_text.clear();
    return {};
  }
  auto filter = telemetry::Expression::parse(text);
  if (!filter) return std::unexpected(filter.error());
  state.filter = std::move(*filter);
  state.filter_text = text;
  return {};
}

}  // namespace gpuwarden::view
