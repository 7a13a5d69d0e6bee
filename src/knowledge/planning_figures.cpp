// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/planning_figures.hpp"

#include <algorithm>
#include <array>

namespace gpuwarden::knowledge {

namespace {

constexpr auto kFigures = std::to_array<PlanningFigure>({
#include "knowledge/planning.inc"
});

}  // namespace

std::span<const PlanningFigure> planning_figures() { return kFigures; }

const PlanningFigure* find_planning_figure(std::string_view name) {
  const auto* const found = std::ranges::find(kFigures, name, &PlanningFigure::name);
  return found == kFigures.end() ? nullptr : found;
}

}  // namespace gpuwarden::knowledge
