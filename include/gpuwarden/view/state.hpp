// SPDX-License-Identifier: Apache-2.0
// What a user has chosen to see: plain data, changed by keys and read by drawing.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/telemetry/expression.hpp"
#include "gpuwarden/view/canvas.hpp"

namespace gpuwarden::view {

enum class Page { overview, detail, alerts, help };
enum class Focus { gpus, processes };
/// How GPUs are laid out: by size, always cards, always a line each.
enum class Shape { automatic, cards, lines };
enum class Graphs { load, power, temperature, traffic };
enum class SortBy { gpu, pid, user, type, sm, memory, cpu, host_memory, time, command };

/// One process on one GPU.
struct ProcessId {
  std::string gpu;  ///< gpu_key()
  Pid pid;
  auto operator<=>(const ProcessId&) const = default;
};

/// A process that is to get a signal.
struct Target {
  std::string node;
  Pid pid;
  std::optional<std::uint64_t> start_ticks;
  std::string what;       ///< its command and owner, for the question
  bool stand_in = false;  ///< as HostProcess::stand_in
  bool operator==(const Target&) const = default;
};

/// Typing a filter.
struct FilterPrompt {
  std::string text;
  std::string error;
};
/// Asking whether the signal is to be sent.
struct SignalPrompt {
  std::vector<Target> targets;
  int signal = 15;
  std::string digits;  ///< typed so far
};
/// Waiting for the letter of a column.
struct SortPrompt {};
using Prompt = std::variant<std::monostate, FilterPrompt, SignalPrompt, SortPrompt>;

/// What a key asks the program to do beyond the view itself.
struct SendSignals {
  std::vector<Target> targets;
  int signal = 15;
};
struct Acknowledge {
  std::string node;
  std::uint64_t alert = 0;
};
struct RedrawAll {};
struct SetMouse {
  bool on = true;
};
using Request = std::variant<SendSignals, Acknowledge, RedrawAll, SetMouse>;

struct ViewState {
  Page page = Page::overview;
  Focus focus = Focus::gpus;
  Shape shape = Shape::automatic;
  Graphs graphs = Graphs::load;
  Glyphs glyphs = Glyphs::braille;
  unsigned zoom = 1;  ///< readings in a dot of a graph

  SortBy sort = SortBy::gpu;
  bool descending = false;
  bool tree = false;
  std::string filter_text;
  std::optional<telemetry::Expression> filter;
  /// Only these GPUs: indices, UUIDs or their beginnings, PCI bus ids. Empty: all.
  std::vector<std::string> only;

  std::string gpu;                   ///< the selected GPU; empty: the first
  std::optional<ProcessId> process;  ///< the selected process
  std::set<ProcessId> tagged;
  std::size_t metric = 0;     ///< the selected row of the detail page
  std::size_t alert = 0;      ///< the selected row of the alerts
  std::size_t first_gpu = 0;  ///< rows above are scrolled out
  std::size_t first_process = 0;
  std::size_t first_line = 0;    ///< of detail, alerts, help
  std::size_t command_from = 0;  ///< columns of the commands that are scrolled out

  bool mouse = true;
  std::optional<std::int64_t> held_at;  ///< paused: the slot of the moment that is shown
  bool done = false;
  Prompt prompt;
  std::string message;  ///< at the bottom until the next key
  bool message_is_error = false;
  std::vector<Request> requests;  ///< for the program, which empties it
};

}  // namespace gpuwarden::view
