// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/planning_figures.hpp"

namespace gpuwarden::knowledge {
namespace {

TEST(PlanningFigures, LieWithinTheirRangesAndSayWhereTheyComeFrom) {
  EXPECT_GE(planning_figures().size(), 20U);
  for (const PlanningFigure& figure : planning_figures()) {
    EXPECT_LE(figure.low, figure.value) << figure.name;
    EXPECT_LE(figure.value, figure.high) << figure.name;
    EXPECT_FALSE(figure.source.empty() || figure.unit.empty() || figure.chosen_on.empty()) << figure.name;
    EXPECT_EQ(find_planning_figure(figure.name), &figure);
  }
  EXPECT_EQ(find_planning_figure("no such figure"), nullptr);
}

}  // namespace
}  // namespace gpuwarden::knowledge
