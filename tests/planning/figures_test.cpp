// SPDX-License-Identifier: Apache-2.0
#include "planning/figures.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>

namespace gpuwarden::planning {
namespace {

TEST(Figures, EachHasARowInTheKnowledgeBase) {
  constexpr std::size_t kCount = sizeof(Figures) / sizeof(double);
  const auto values = std::bit_cast<std::array<double, kCount>>(figures());
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_GT(values[i], 0) << "field " << i;
}

TEST(Figures, ThePriorsOfUtilizationAreRows) {
  for (const char* name : {"mfu_a100_40", "mfu_a100", "mfu_h100", "mfu_unknown"}) {
    const knowledge::PlanningFigure* figure = knowledge::find_planning_figure(name);
    ASSERT_NE(figure, nullptr) << name;
    EXPECT_LE(figure->high, 1);
  }
}

}  // namespace
}  // namespace gpuwarden::planning
