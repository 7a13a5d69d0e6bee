// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/strategy.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::memory {
namespace {

constexpr std::array kStrategies{
    Strategy{.name = "balanced",
             .rule = "first fit in the own size class, then in the next; moves idle pages before it takes new ones",
             .fit = {.own_class_scan = 4, .next_class_scan = 1, .order = FitOrder::first},
             .quick_permille = 1000,
             .small_below = 1_MiB,
             .remap_above_permille = 8,
             .learns = true,
             .learns_steps = true},
    Strategy{
        .name = "steady",
        .rule = "as balanced, with memory in large pieces and 2 % more of it: few driver calls where shapes change",
        .fit = {.own_class_scan = 4, .next_class_scan = 1, .order = FitOrder::first},
        .quick_permille = 1000,
        .small_below = 1_MiB,
        .remap_above_permille = 8,
        .learns = true,
        .learns_steps = true,
        .in_pieces = true},
    Strategy{.name = "greedy",
             .rule = "fastest fit, long quick lists, small rests not split off; moves pages only when memory is out",
             .fit = {.own_class_scan = 1, .next_class_scan = 1, .order = FitOrder::first},
             .split_from = 64_KiB,
             .split_share = 8,
             .quick_permille = 250,
             .small_below = 1_MiB,
             .remap_above_permille = std::nullopt},
    Strategy{.name = "consolidated",
             .rule = "lowest address that fits; always moves idle pages first and gives free ones back early",
             .fit = {.own_class_scan = 16, .next_class_scan = 16, .order = FitOrder::lowest},
             .quick_permille = 5,
             .small_below = 1_MiB,
             .remap_above_permille = 0,
             .trim_every = 4096},
    Strategy{.name = "fragmentation_aware",
             .rule = "smallest block that fits, brief and lasting sizes at its two ends; always moves idle pages first",
             .fit = {.own_class_scan = 32, .next_class_scan = 16, .order = FitOrder::smallest},
             .quick_permille = 5,
             .small_below = 1_MiB,
             .remap_above_permille = 0,
             .learns_steps = true,
             .two_ends = true},
};

}  // namespace

std::span<const Strategy> strategies() { return kStrategies; }

const Strategy* find_strategy(std::string_view name) {
  const auto* const found = std::ranges::find(kStrategies, name, &Strategy::name);
  return found == kStrategies.end() ? nullptr : found;
}

Result<std::vector<const Strategy*>> strategies_named(std::string_view name) {
  std::vector<const Strategy*> chosen;
  std::vector<std::string> names{"all"};
  for (const Strategy& strategy : kStrategies) {
    names.emplace_back(strategy.name);
    if (name == "all" || name == strategy.name) chosen.push_back(&strategy);
  }
  if (chosen.empty())
    return fail(ErrorCode::invalid_argument, "unknown strategy '" + printable(name) + "'",
                "there are: " + join(names, ", "));
  return chosen;
}

}  // namespace gpuwarden::memory
