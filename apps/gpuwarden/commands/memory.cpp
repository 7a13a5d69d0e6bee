// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory: who holds what on the GPUs, and what allocators make of recorded workloads.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "memory/actions.hpp"

namespace gpuwarden::cli {
namespace {

struct Action {
  const char* name;
  Result<int> (*run)(Context&);
};

constexpr auto kActions = std::to_array<Action>({
    {"replay", memory_replay},
    {"trace", memory_trace},
});

Result<int> answer(Context& context) {
  auto& words = context.args.rest;
  if (words.empty()) return memory_status(context);
  const auto* const action = std::ranges::find(kActions, words[0], [](const Action& one) { return one.name; });
  if (action != kActions.end()) return action->run(context);
  std::vector<std::string> names;
  for (const Action& one : kActions) names.emplace_back(one.name);
  return fail(ErrorCode::invalid_argument, fmt::format("memory knows no '{}'", printable(words[0])),
              fmt::format("there are: {}", join(names, ", ")));
}

}  // namespace

int run_memory(Context& context) {
  const auto code = answer(context);
  return code ? *code : complain(code.error());
}

}  // namespace gpuwarden::cli
