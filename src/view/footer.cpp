// SPDX-License-Identifier: Apache-2.0
// The last line: a question, a message, or the keys that are wanted most.
#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

struct Hint {
  std::string_view key;
  std::string_view what;
};
constexpr auto kOverviewHints = std::to_array<Hint>({{"?", "help"},
                                                     {"q", "quit"},
                                                     {"Tab", "GPUs/processes"},
                                                     {"Enter", "GPU"},
                                                     {"/", "filter"},
                                                     {"o", "sort"},
                                                     {"F9", "kill"},
                                                     {"A", "alerts"},
                                                     {"p", "pause"},
                                                     {"t", "tree"},
                                                     {"g", "graphs"},
                                                     {"[ ]", "step back"}});
constexpr auto kListHints = std::to_array<Hint>({{"Esc", "back"}, {"q", "quit"}, {"?", "help"}});
constexpr auto kDetailHints = std::to_array<Hint>({{"Esc", "back"},
                                                   {"Up Down", "metric"},
                                                   {"Left Right", "GPU"},
                                                   {"z", "time scale"},
                                                   {"b", "dots"},
                                                   {"p", "pause"},
                                                   {"?", "help"}});
constexpr auto kAlertHints = std::to_array<Hint>({{"Esc", "back"}, {"Enter", "acknowledge"}, {"?", "help"}});

void draw_hints(const Frame& frame, Rect area, std::span<const Hint> hints) {
  Point at{area.x, area.y};
  for (const Hint& hint : hints) {
    const int width = display_width(hint.key) + display_width(hint.what) + 1;
    if (at.x + width > area.x + area.width) return;
    at.x += frame.canvas.put(at, hint.key, Tone::key) + 1;
    at.x += frame.canvas.put(at, hint.what, Tone::dim) + 2;
  }
}

void draw_sort_prompt(const Frame& frame, Rect area) {
  std::string text = "Sort by: ";
  for (const SortColumn& column : sort_columns()) text += fmt::format("[{}] {}  ", column.letter, column.title);
  frame.canvas.put({area.x, area.y}, text, Tone::warning, area.width);
}

struct DrawPrompt {
  const Frame& frame;
  Rect area;
  bool operator()(std::monostate /*none*/) const { return false; }
  bool operator()(const FilterPrompt& prompt) const {
    int x = area.x + frame.canvas.put({area.x, area.y}, "filter: ", Tone::key, area.width);
    x += frame.canvas.put({x, area.y}, prompt.text, Tone::bold, area.x + area.width - x);
    if (x < area.x + area.width) frame.canvas.invert({x, area.y, 1, 1});
    if (!prompt.error.empty())
      frame.canvas.put({area.x, area.y - 1}, prompt.error + std::string(static_cast<std::size_t>(area.width), ' '),
                       Tone::fault, area.width);
    return true;
  }
  bool operator()(const SignalPrompt& prompt) const {
    const char* name = ::sigabbrev_np(prompt.signal);
    const std::string who = prompt.targets.size() == 1
                                ? fmt::format("process {} ({})", prompt.targets[0].pid.value, prompt.targets[0].what)
                                : fmt::format("{} processes", prompt.targets.size());
    const std::string signal =
        name == nullptr ? fmt::format("signal {}", prompt.signal) : fmt::format("SIG{} ({})", name, prompt.signal);
    const std::string question = fmt::format("Send {} to {}?", signal, who);
    const std::string how = "  y: send  0-9: signal  Esc: no";
    const int rest = std::max(20, area.width - display_width(how));
    const int x = frame.canvas.put({area.x, area.y}, question, Tone::warning, std::min(rest, area.width));
    frame.canvas.put({area.x + x, area.y}, how, Tone::key, area.width - x);
    return true;
  }
  bool operator()(const SortPrompt& /*prompt*/) const {
    draw_sort_prompt(frame, area);
    return true;
  }
};

}  // namespace

void draw_footer(const Frame& frame, Rect area) {
  if (std::visit(DrawPrompt{frame, area}, frame.state.prompt)) return;
  if (!frame.state.message.empty()) {
    frame.canvas.put({area.x, area.y}, frame.state.message, frame.state.message_is_error ? Tone::fault : Tone::good,
                     area.width);
    return;
  }
  switch (frame.state.page) {
    case Page::overview:
      return draw_hints(frame, area, kOverviewHints);
    case Page::detail:
      return draw_hints(frame, area, kDetailHints);
    case Page::alerts:
      return draw_hints(frame, area, kAlertHints);
    case Page::help:
      return draw_hints(frame, area, kListHints);
  }
}

}  // namespace gpuwarden::view
