// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/planning_figures.hpp"

#include <gtest/gtest.h>

#include <map>

#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/loss_memory.hpp"
#include "gpuwarden/knowledge/usable_memory.hpp"

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

TEST(UsableMemory, IsLessThanWhatTheMakerPrintsOfAModelThatIsKnown) {
  EXPECT_GE(usable_memories().size(), 10U);
  for (const UsableMemory& row : usable_memories()) {
    const GpuModel* const model = Knowledge::built_in().model(row.name);
    ASSERT_NE(model, nullptr) << row.name;
    EXPECT_LT(row.gib, model->memory_gb) << row.name;
    EXPECT_GT(row.gib, 0.9 * model->memory_gb) << row.name;
    EXPECT_FALSE(row.source.empty()) << row.name;
    EXPECT_EQ(find_usable_memory(row.name), &row);
  }
  EXPECT_EQ(find_usable_memory("no such GPU"), nullptr);
}

TEST(LossMemory, EveryKernelHasARowForAnyFrameworkLast) {
  std::map<std::string_view, const LossMemory*> last;
  for (const LossMemory& row : loss_memories()) {
    EXPECT_GE(row.per_logit, 0) << row.kernel;
    EXPECT_LE(row.per_logit, 24) << row.kernel;
    EXPECT_FALSE(row.source.empty() || row.chosen_on.empty()) << row.kernel;
    last[row.kernel] = &row;
  }
  EXPECT_EQ(last.size(), 6U);
  for (const auto& [kernel, row] : last) {
    EXPECT_EQ(row->framework, "any") << kernel;
    EXPECT_EQ(row->when, "any") << kernel;
  }
}

}  // namespace
}  // namespace gpuwarden::knowledge
