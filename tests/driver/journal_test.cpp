// SPDX-License-Identifier: Apache-2.0
// The journal of driver runs: what it tells, however it was cut.
#include "driver/journal.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "driver/machines.hpp"
#include "gpuwarden/driver/json.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using driver::begin_line;
using driver::DriverRun;
using driver::replay;
using driver::RunState;
using driver::state_line;
using driver::step_line;
using driver::StepState;

const std::string kAt = "2026-10-01T08:00:00Z";

driver::Plan small_plan(const std::string& id = "test") {
  driver::Plan plan;
  plan.id = id;
  plan.from = "535.183.01";
  plan.to = "R580";
  plan.prelude = "say() { echo \"$@\"; }\n";
  plan.notes = {"restart the containers"};
  plan.steps = {{.id = "record", .title = "record", .commands = "say a\n", .check = "true\n"},
                {.id = "install", .title = "install", .commands = "say b\n", .undo = "say c\n"},
                {.id = "reboot", .title = "reboot", .commands = ":\n", .reboot = true}};
  return plan;
}

std::string whole_journal() {
  return begin_line(small_plan(), kAt) + step_line("test", kAt, "record", StepState::started, "") +
         step_line("test", kAt, "record", StepState::done, "") +
         step_line("test", kAt, "install", StepState::started, "") +
         step_line("test", kAt, "install", StepState::failed, "no \"network\"\n") +
         state_line("test", kAt, RunState::failed, "", "install: no network") +
         state_line("test", kAt, RunState::in_progress, "", "") +
         step_line("test", kAt, "install", StepState::done, "") +
         step_line("test", kAt, "reboot", StepState::started, "") +
         state_line("test", kAt, RunState::waiting_for_reboot, "boot-1", "");
}

TEST(DriverJournal, TellsARunAsItWent) {
  const auto runs = replay(whole_journal());
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  ASSERT_EQ(runs->size(), 1U);
  const DriverRun& run = runs->front();
  EXPECT_EQ(run.plan.steps, small_plan().steps);
  EXPECT_EQ(run.plan.prelude, small_plan().prelude);
  EXPECT_EQ(run.plan.notes, small_plan().notes);
  EXPECT_EQ(run.state, RunState::waiting_for_reboot);
  EXPECT_EQ(run.boot_id, "boot-1");
  EXPECT_EQ(run.message, "no \"network\"\n");
  EXPECT_EQ(run.steps, (std::vector{StepState::done, StepState::done, StepState::started}));
}

// Power can take any end of it away; what is left must tell a state that the run was once in.
TEST(DriverJournal, CanBeReadCutAtEveryByte) {
  const std::string journal = whole_journal();
  std::size_t lines = 0;
  for (std::size_t length = 0; length <= journal.size(); ++length) {
    const std::string cut = journal.substr(0, length);
    lines = static_cast<std::size_t>(std::ranges::count(cut, '\n'));
    const auto runs = replay(cut);
    ASSERT_TRUE(runs.has_value()) << length << ": " << runs.error().message;
    EXPECT_EQ(runs->size(), lines == 0 ? 0U : 1U) << length;
    const std::size_t whole = driver::whole_part(cut);
    EXPECT_LE(whole, length);
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(cut.substr(0, whole), '\n')), lines);
    if (lines == 0) continue;
    // A step is done only where its line is whole.
    EXPECT_EQ(runs->front().steps[0] == StepState::done, lines >= 3) << length;
    EXPECT_EQ(runs->front().steps[1] == StepState::done, lines >= 8) << length;
  }
}

TEST(DriverJournal, TakesALastLineOfRubbishForNotWritten) {
  const std::string journal = whole_journal() + std::string(40, '\0') + "\n";
  EXPECT_EQ(driver::whole_part(journal), whole_journal().size());
  EXPECT_EQ(replay(journal)->front().state, RunState::waiting_for_reboot);
}

TEST(DriverJournal, RefusesDamageInTheMiddle) {
  const std::string good = step_line("test", kAt, "record", StepState::done, "");
  for (const std::string& bad :
       {std::string("{\"at\": \n"), std::string("[]\n"), std::string("{\"event\":\"begin\"}\n"),
        std::string("{\"event\":\"begin\",\"plan\":{\"id\":\"x\",\"steps\":7}}\n"),
        std::string("{\"event\":\"begin\",\"plan\":[1]}\n"), step_line("other", kAt, "record", StepState::done, ""),
        step_line("test", kAt, "nonsense", StepState::done, ""),
        std::string("{\"event\":\"step\",\"run\":\"test\",\"step\":\"record\",\"state\":\"great\"}\n"),
        std::string("{\"event\":\"party\",\"run\":\"test\"}\n")}) {
    const auto runs = replay(begin_line(small_plan(), kAt) + bad + good);
    ASSERT_FALSE(runs.has_value()) << bad;
    EXPECT_EQ(runs.error().code, ErrorCode::corrupt);
    EXPECT_THAT(runs.error().message, ::testing::HasSubstr("journal"));
  }
}

TEST(DriverJournal, KeepsRunsApart) {
  const auto runs = replay(begin_line(small_plan("one"), kAt) + state_line("one", kAt, RunState::rolled_back, "", "") +
                           begin_line(small_plan("two"), kAt) + step_line("two", kAt, "record", StepState::done, ""));
  ASSERT_TRUE(runs.has_value());
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ((*runs)[0].state, RunState::rolled_back);
  EXPECT_EQ((*runs)[0].steps[0], StepState::pending);
  EXPECT_EQ((*runs)[1].steps[0], StepState::done);
}

TEST(DriverJournal, ShowsARunAsJsonWithoutTheStepsTexts) {
  const auto run = replay(whole_journal())->front();
  const auto json = to_json(run);
  EXPECT_EQ(json["state"], "waiting_for_reboot");
  ASSERT_EQ(json["steps"].size(), 3U);
  EXPECT_EQ(json["steps"][1]["state"], "done");
  EXPECT_FALSE(json["steps"][1].contains("commands"));
}

TEST(DriverJournal, KnowsEveryNameThatItWrites) {
  for (const auto state : {StepState::pending, StepState::started, StepState::done, StepState::failed,
                           StepState::undoing, StepState::undone, StepState::undo_failed}) {
    const auto runs = replay(begin_line(small_plan(), kAt) + step_line("test", kAt, "install", state, ""));
    ASSERT_TRUE(runs.has_value());
    EXPECT_EQ(runs->front().steps[1], state) << to_string(state);
  }
  for (const auto state : {RunState::in_progress, RunState::failed, RunState::waiting_for_reboot,
                           RunState::rolling_back, RunState::completed, RunState::rolled_back}) {
    EXPECT_EQ(replay(begin_line(small_plan(), kAt) + state_line("test", kAt, state, "", ""))->front().state, state);
    EXPECT_EQ(is_over(state), state == RunState::completed || state == RunState::rolled_back);
  }
}

TEST(DriverJournal, KnowsNoRunWhoseNameLeadsElsewhere) {
  for (const char* name : {"../../etc", "/etc", "a b", ".."})
    EXPECT_EQ(replay(begin_line(small_plan(name), kAt)).error().code, ErrorCode::corrupt) << name;
  EXPECT_TRUE(replay(begin_line(small_plan("20261121-080413-2"), kAt)).has_value());
}

TEST(NewRunId, IsItsTimeAndANumberWhereThatIsTaken) {
  const testing::TempDir root;
  const auto at = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21) + std::chrono::hours(8);
  EXPECT_EQ(driver::new_run_id(root.path(), at), "20261121-080000");
  const std::string folder(driver::kDriverFolder.substr(1));
  testing::put(root / folder / "journal.jsonl", begin_line(small_plan("20261121-080000"), kAt));
  EXPECT_EQ(driver::new_run_id(root.path(), at), "20261121-080000-2");
  EXPECT_EQ(driver::new_run_id(root.path(), at + std::chrono::seconds(1)), "20261121-080001");
}

TEST(NewRunId, IsNotGivenWhereTheRunsCannotBeRead) {
  const testing::TempDir root;
  const std::string folder(driver::kDriverFolder.substr(1));
  testing::put(root / folder / "journal.jsonl", "[]\n" + begin_line(small_plan(), kAt));
  const auto id = driver::new_run_id(root.path(), {});
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, ErrorCode::corrupt);
  EXPECT_EQ(driver::run_id_at({}), "19700101-000000");
}

}  // namespace
}  // namespace gpuwarden
