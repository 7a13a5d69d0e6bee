// SPDX-License-Identifier: Apache-2.0
#include "view/prompts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::view {
namespace {

constexpr std::size_t kLongestFilter = 500;
constexpr int kHighestSignal = 64;

void drop_last_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
  if (!text.empty()) text.pop_back();
}

bool is_printable(KeyCode code) { return code >= character(U' ') && code != KeyCode::backspace && code < KeyCode::up; }

void type_filter(const Key& key, ViewState& state, FilterPrompt& prompt) {
  if (key.code == KeyCode::escape || key.code == control('C')) {
    state.prompt = std::monostate{};
  } else if (key.code == KeyCode::enter) {
    const auto set = set_filter(state, prompt.text);
    if (set)
      state.prompt = std::monostate{};
    else
      prompt.error = set.error().message + (set.error().hint.empty() ? "" : " (" + set.error().hint + ")");
  } else if (key.code == KeyCode::backspace || key.code == control('H')) {
    drop_last_character(prompt.text);
    prompt.error.clear();
  } else if (key.code == control('U')) {
    prompt.text.clear();
  } else if (is_printable(key.code) && prompt.text.size() < kLongestFilter) {
    append_utf8(prompt.text, static_cast<char32_t>(key.code));
    prompt.error.clear();
  }
}

void type_signal(const Key& key, ViewState& state, SignalPrompt& prompt) {
  const auto value = static_cast<char32_t>(key.code);
  if (value >= U'0' && value <= U'9') {
    prompt.digits += static_cast<char>(value);
    auto number = parse_integer(prompt.digits).value_or(0);
    if (number > kHighestSignal) {
      prompt.digits = static_cast<char>(value);
      number = value - U'0';
    }
    if (number > 0) prompt.signal = static_cast<int>(number);
    return;
  }
  if (key.code == KeyCode::backspace) {
    prompt.digits.clear();
    return;
  }
  const bool sent = key.code == character(U'y') || key.code == character(U'Y');
  if (sent) state.requests.emplace_back(SendSignals{prompt.targets, prompt.signal});
  if (!sent) state.message = "no signal was sent";
  state.prompt = std::monostate{};
}

void type_sort(const Key& key, ViewState& state) {
  state.prompt = std::monostate{};
  const auto value = static_cast<char32_t>(key.code);
  const bool capital = value >= U'A' && value <= U'Z';
  const auto letter = static_cast<char>(capital ? value + 0x20 : value < 0x80 ? value : 0);
  const auto& columns = sort_columns();
  const auto found = std::ranges::find(columns, letter, &SortColumn::letter);
  if (found == columns.end()) return;
  state.sort = found->by;
  state.descending = found->descending != capital;
}

Target target_of(const ProcessRow& row, const Rows& rows) {
  const std::string owner = row.process->user.value_or("?");
  return {.node = rows.all_gpus[row.gpu].node->name,
          .pid = row.id.pid,
          .start_ticks = row.host != nullptr ? row.host->start_ticks : std::nullopt,
          .what = owner + ": " + row.process->command.value_or("?"),
          .stand_in = row.host != nullptr && row.host->stand_in};
}

}  // namespace

bool apply_to_prompt(const Key& key, ViewState& state) {
  if (key.code == KeyCode::resize || key.code == KeyCode::wheel_up || key.code == KeyCode::wheel_down)
    return !std::holds_alternative<std::monostate>(state.prompt);
  if (auto* filter = std::get_if<FilterPrompt>(&state.prompt)) {
    // The prompt may end with the key, and its text with it.
    FilterPrompt copy = *filter;
    type_filter(key, state, copy);
    if (std::holds_alternative<FilterPrompt>(state.prompt)) state.prompt = std::move(copy);
    return true;
  }
  if (auto* signal = std::get_if<SignalPrompt>(&state.prompt)) {
    SignalPrompt copy = *signal;
    type_signal(key, state, copy);
    if (std::holds_alternative<SignalPrompt>(state.prompt)) state.prompt = std::move(copy);
    return true;
  }
  if (std::holds_alternative<SortPrompt>(state.prompt)) {
    type_sort(key, state);
    return true;
  }
  return false;
}

void ask_for_signal(ViewState& state, const Situation& situation, int signal) {
  SignalPrompt prompt{.signal = signal};
  const auto selected = selected_process(state, situation.rows);
  bool elsewhere = false;
  for (std::size_t i = 0; i < situation.rows.processes.size(); ++i) {
    const ProcessRow& row = situation.rows.processes[i];
    const bool meant = state.tagged.empty() ? i == selected : state.tagged.contains(row.id);
    if (!meant || row.process == nullptr) continue;
    const bool here = situation.rows.all_gpus[row.gpu].node->url.empty();
    elsewhere = elsewhere || !here;
    // A process on several GPUs is one process.
    const auto same = [&](const Target& target) { return target.pid == row.id.pid; };
    if (here && std::ranges::none_of(prompt.targets, same)) prompt.targets.push_back(target_of(row, situation.rows));
  }
  if (prompt.targets.empty() || situation.scene.captured || situation.scene.behind) {
    state.message_is_error = true;
    state.message = situation.scene.captured ? "the processes of a capture get no signals"
                    : situation.scene.behind ? "paused: p goes on, then processes can get signals"
                    : elsewhere              ? "processes of other nodes get no signals from here"
                                             : "no process is selected";
    return;
  }
  state.prompt = std::move(prompt);
}

}  // namespace gpuwarden::view
