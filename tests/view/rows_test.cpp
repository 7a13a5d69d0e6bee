// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/scene.hpp"

#include "view/scenes.hpp"
#include "view/words.hpp"

namespace gpuwarden::view {
namespace {

using ::testing::ElementsAre;
using testing::Stage;

std::vector<std::uint32_t> shown_gpus(const ViewState& state, const Scene& scene) {
  std::vector<std::uint32_t> indices;
  const Rows rows = rows_of(state, scene);
  for (const std::size_t at : rows.gpus) indices.push_back(rows.all_gpus[at].record->gpu.index.value);
  return indices;
}

std::vector<std::int32_t> shown_pids(const ViewState& state, const Scene& scene) {
  std::vector<std::int32_t> pids;
  for (const ProcessRow& row : rows_of(state, scene).processes) pids.push_back(row.id.pid.value);
  return pids;
}

ViewState filtered(std::string_view text) {
  ViewState state;
  EXPECT_TRUE(set_filter(state, text).has_value()) << text;
  return state;
}

TEST(Rows, AFilterOfGpusKeepsTheirProcesses) {
  const Stage stage(4);
  const ViewState state = filtered("utilization > 60");
  EXPECT_THAT(shown_gpus(state, stage.scene), ElementsAre(2));
  EXPECT_THAT(shown_pids(state, stage.scene), ElementsAre(1002));
}

TEST(Rows, AFilterOfProcessesKeepsTheirGpus) {
  const Stage stage(8);
  const ViewState state = filtered("pid == 1004");
  EXPECT_THAT(shown_pids(state, stage.scene), ElementsAre(1004));
  EXPECT_THAT(shown_gpus(state, stage.scene), ElementsAre(4));
}

TEST(Rows, AFilterThatIsWrongIsToldAndTheOldOneStays) {
  ViewState state = filtered("temp > 20");
  const auto set = set_filter(state, "temp >");
  ASSERT_FALSE(set.has_value());
  EXPECT_EQ(set.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(state.filter_text, "temp > 20");
  EXPECT_TRUE(set_filter(state, "  ").has_value());
  EXPECT_FALSE(state.filter.has_value());
}

TEST(Rows, OnlyNamedGpusAreShown) {
  const Stage stage(8);
  ViewState state;
  state.only = {"1", "GPU-3000", "14:00.0"};
  EXPECT_THAT(shown_gpus(state, stage.scene), ElementsAre(1, 3, 4));
  state.only = {"9"};
  EXPECT_TRUE(shown_gpus(state, stage.scene).empty());
}

TEST(Rows, SortsByAnyColumnBothWays) {
  Stage stage(8);
  stage.scene.host[Pid{1004}] = {.cpu_percent = 50, .age = std::chrono::seconds(9)};
  stage.scene.host[Pid{1000}] = {.cpu_percent = 70, .age = std::chrono::seconds(5)};
  ViewState state;
  state.sort = SortBy::cpu;
  state.descending = true;
  EXPECT_THAT(shown_pids(state, stage.scene), ElementsAre(1000, 1004, 1002, 1006)) << "unknown last";
  state.sort = SortBy::time;
  EXPECT_THAT(shown_pids(state, stage.scene), ElementsAre(1004, 1000, 1002, 1006));
  state.sort = SortBy::user;
  state.descending = false;
  EXPECT_THAT(shown_pids(state, stage.scene), ElementsAre(1000, 1004, 1002, 1006)) << "ann, ann, bob, bob";
  state.sort = SortBy::memory;
  state.descending = true;
  EXPECT_THAT(shown_pids(state, stage.scene), ElementsAre(1002, 1000, 1006, 1004));
}

TEST(Rows, ATreePutsProcessesBelowThoseThatStartedThem) {
  Stage stage(8);
  stage.scene.host[Pid{1000}] = {.ancestors = {Pid{900}, Pid{1006}, Pid{1}}};
  stage.scene.host[Pid{1002}] = {.ancestors = {Pid{1006}}};
  stage.scene.host[Pid{1006}] = {.ancestors = {Pid{1}}};
  ViewState state;
  state.tree = true;
  EXPECT_THAT(shown_pids(state, stage.scene), ElementsAre(1004, 1006, 1000, 1002));
  const Rows rows = rows_of(state, stage.scene);
  EXPECT_EQ(rows.processes[0].depth, 0);
  EXPECT_EQ(rows.processes[2].depth, 1);
  // Two moments may contradict each other.
  stage.scene.host[Pid{1006}].ancestors = {Pid{1000}};
  EXPECT_EQ(shown_pids(state, stage.scene).size(), 4U);
}

TEST(Rows, MemoryThatNobodyIsListedForHasALineOfItsOwn) {
  facts::Snapshot snapshot = testing::working_fleet(1, 0);
  snapshot.gpus[0].processes->clear();
  Stage stage(1, 1);
  stage.show(snapshot);
  const Rows rows = rows_of({}, stage.scene);
  ASSERT_EQ(rows.processes.size(), 1U);
  EXPECT_EQ(rows.processes[0].process, nullptr);
  EXPECT_EQ(rows.processes[0].memory_left, *snapshot.gpus[0].sample.memory_used);
}

TEST(Rows, ProcessesOfNobodyKnownSayThatTheGpuIsBusy) {
  facts::Snapshot snapshot = testing::working_fleet(1, 0);
  snapshot.gpus[0].state = facts::GpuState::busy;
  snapshot.gpus[0].processes->front().user.reset();
  Stage stage(1, 1);
  stage.show(snapshot);
  const Rows rows = rows_of({}, stage.scene);
  EXPECT_EQ(holder_words(rows.all_gpus[0]), "");
  EXPECT_EQ(remarks_on(rows.all_gpus[0], stage.scene).front().text, "busy");
}

TEST(Rows, NodesAreToldApartAndSilentOnesHaveALine) {
  Stage stage(2, 1);
  cluster::Node lost;
  lost.name = "n2";
  lost.url = "http://n2:1";
  lost.problem = Error{ErrorCode::timed_out, "n2 does not answer", ""};
  stage.scene.nodes.push_back(lost);
  const Rows rows = rows_of({}, stage.scene);
  ASSERT_EQ(rows.all_gpus.size(), 3U);
  EXPECT_EQ(rows.all_gpus[1].label, "n1:1");
  EXPECT_EQ(rows.all_gpus[2].label, "n2");
  EXPECT_EQ(rows.all_gpus[2].record, nullptr);
}

TEST(Rows, PidsOfOtherNodesAreOtherProcesses) {
  Stage stage(1, 1);
  stage.scene.host[Pid{1000}] = {.cpu_percent = 50};
  EXPECT_NE(rows_of({}, stage.scene).processes[0].host, nullptr);
  stage.scene.nodes[0].url = "http://n1:1";
  EXPECT_EQ(rows_of({}, stage.scene).processes[0].host, nullptr);
}

TEST(Rows, ANodeGrowsStaleWhenItMissesItsTime) {
  Stage stage(1, 1);
  const cluster::Node& node = stage.scene.nodes[0];
  EXPECT_FALSE(staleness(node, stage.scene).has_value());
  stage.scene.now = testing::at_second(12);
  EXPECT_EQ(staleness(node, stage.scene), std::chrono::seconds(12));
  stage.scene.interval = std::chrono::seconds(10);
  EXPECT_FALSE(staleness(node, stage.scene).has_value());
  stage.scene.interval = std::chrono::seconds(1);
  stage.scene.captured = true;
  EXPECT_FALSE(staleness(node, stage.scene).has_value()) << "a capture does not grow old";
}

}  // namespace
}  // namespace gpuwarden::view
