// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory: who holds what on the GPUs, and what allocators make of recorded workloads.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "gpuwarden/base/text.hpp"
#include "memory/actions.hpp"

namespace gpuwarden::cli {
namespace {

struct Action {
  std::string_view name;  ///< empty: without an operand
  Result<int> (*run)(Context&);
};

constexpr auto kActions = std::to_array<Action>({
    {"", memory_status},
    {"replay", memory_replay},
    {"trace", memory_trace},
});

/// The options that only one of them has; the others are common to several.
struct Owned {
  const char* key;
  std::string_view action;
};
constexpr auto kOwned = std::to_array<Owned>({
    {"gpu", ""},
    {"watch", ""},
    {"count", ""},
    {"from", ""},
    {"output", "trace"},
    {"strategy", "replay"},
    {"device-memory", "replay"},
    {"repeat", "replay"},
    {"tokens", "replay"},
    {"random-lengths", "replay"},
    {"steps", "replay"},
    {"seed", "replay"},
    {"device", "replay"},
    {"timeline", "replay"},
    {"snapshot", "replay"},
});

std::string title_of(std::string_view action) { return fmt::format("memory{}{}", action.empty() ? "" : " ", action); }

/// Told, not left out in silence.
Result<void> check_options(const Args& args, std::string_view action) {
  for (const Owned& owned : kOwned) {
    if (args.has(owned.key) && owned.action != action)
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("{}: --{} is an option of gpuwarden {}", title_of(action), owned.key, title_of(owned.action)),
          "leave it out");
  }
  return {};
}

Result<int> answer(Context& context) {
  auto& words = context.args.rest;
  const std::string_view wanted = words.empty() ? std::string_view() : words[0];
  const auto* const action = std::ranges::find(kActions, wanted, &Action::name);
  if (action != kActions.end()) {
    GPUWARDEN_CHECK(check_options(context.args, action->name));
    return action->run(context);
  }
  std::vector<std::string> names;
  for (const Action& one : kActions) {
    if (!one.name.empty()) names.emplace_back(one.name);
  }
  return fail(ErrorCode::invalid_argument, fmt::format("memory knows no '{}'", printable(words[0])),
              fmt::format("there are: {}", join(names, ", ")));
}

}  // namespace

int run_memory(Context& context) {
  const auto code = answer(context);
  return code ? *code : complain(code.error());
}

}  // namespace gpuwarden::cli
