// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/trail.hpp"

#include <cmath>

#include "view/scenes.hpp"

namespace gpuwarden::view {
namespace {

using testing::at_second;
using ::testing::ElementsAre;
using ::testing::IsNan;
using testing::node_with;

/// A reading of one GPU with this load.
void add_load(Trail& trail, std::int64_t second, std::int64_t load) {
  facts::Snapshot snapshot = testing::fleet(1);
  snapshot.host = "n1";
  snapshot.gpus[0].sample.utilization_gpu = Percent(load);
  trail.add({node_with(std::move(snapshot))}, Clock::SteadyTime(std::chrono::seconds(second)), at_second(second));
}

std::vector<float> loads(const Trail& trail, std::int64_t newest, std::size_t dots, unsigned each = 1) {
  return trail.graph("n1/GPU-0000-test", metric_position("utilization"),
                     {.newest = newest, .dots = dots, .each = each});
}

TEST(Trail, KeepsTheHighestOfEachStretchSoThatSpikesSurvive) {
  Trail trail(std::chrono::seconds(1));
  for (const auto load : {1, 2, 90, 3, 4, 5}) add_load(trail, trail.moments().size(), load);
  EXPECT_THAT(loads(trail, 5, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(loads(trail, 5, 3, 2), ElementsAre(2, 90, 5));
  EXPECT_THAT(loads(trail, 2, 3), ElementsAre(1, 2, 90)) << "a look back";
}

TEST(Trail, DotsStayWhatTheyWereWhileTheyWander) {
  Trail trail(std::chrono::seconds(1));
  for (std::int64_t i = 0; i < 9; ++i) add_load(trail, i, i);
  const auto before = loads(trail, 8, 3, 3);
  add_load(trail, 9, 9);
  const auto after = loads(trail, 9, 3, 3);
  EXPECT_EQ(before[1], after[0]);
  EXPECT_EQ(before[2], after[1]);
}

TEST(Trail, LeavesAGapWhereAReadingWasLate) {
  Trail trail(std::chrono::seconds(1));
  add_load(trail, 0, 10);
  add_load(trail, 3, 40);
  EXPECT_THAT(loads(trail, 3, 5), ElementsAre(IsNan(), 10, IsNan(), IsNan(), 40));
  EXPECT_EQ(trail.moments().back().slot, 3);
}

TEST(Trail, OverwritesItsOldestAndNeverShowsItAsNew) {
  Trail trail(std::chrono::seconds(1), {.whole_gpus = 3, .figures = 1, .longest = 4});
  for (std::int64_t i = 0; i < 6; ++i) add_load(trail, i, i);
  EXPECT_THAT(loads(trail, 5, 6), ElementsAre(IsNan(), IsNan(), 2, 3, 4, 5));
  EXPECT_EQ(trail.moments().size(), 3U);
  EXPECT_EQ(trail.moments().front().slot, 3);
}

TEST(Trail, KnowsNothingOfUnknownGpusAndMetrics) {
  Trail trail(std::chrono::seconds(1));
  EXPECT_THAT(loads(trail, 0, 2), ElementsAre(IsNan(), IsNan()));
  add_load(trail, 0, 1);
  EXPECT_THAT(trail.graph("other", 0, {.newest = 0, .dots = 1}), ElementsAre(IsNan()));
  EXPECT_THAT(trail.graph("n1/GPU-0000-test", 9999, {.newest = 0, .dots = 1}), ElementsAre(IsNan()));
  EXPECT_GT(metric_position("no_such_metric"), 40U);
}

TEST(Trail, ALostNodeLeavesAGap) {
  Trail trail(std::chrono::seconds(1));
  add_load(trail, 0, 10);
  auto nodes = trail.moments().back().nodes;
  nodes[0].problem = Error{ErrorCode::timed_out, "no answer", ""};
  trail.add(nodes, Clock::SteadyTime(std::chrono::seconds(1)), at_second(1));
  EXPECT_THAT(loads(trail, 1, 2), ElementsAre(10, IsNan()));
}

}  // namespace
}  // namespace gpuwarden::view
