// SPDX-License-Identifier: Apache-2.0
// Figures that plans rest on and that no formula gives: what a CUDA context takes, how much an allocator keeps, which
// share of its peak a GPU reaches. From knowledge/planning_figures.csv.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::knowledge {

struct PlanningFigure {
  std::string_view name;
  std::string_view unit;
  double low = 0;
  double value = 0;
  double high = 0;
  std::string_view chosen_on;  ///< measured rows that it was chosen on; "none": published, or assumed
  std::string_view source;
};

std::span<const PlanningFigure> planning_figures();
/// nullptr where there is none of that name.
const PlanningFigure* find_planning_figure(std::string_view name);

}  // namespace gpuwarden::knowledge
