// SPDX-License-Identifier: Apache-2.0
// Carrying plans out, with a shell that only notes what it is told, and may fail or vanish at any moment.
#include <algorithm>

#include "driver/machines.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/driver/run.hpp"
#include "support/fake_clock.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using driver::DriverProcedure;
using driver::Plan;
using driver::RunState;
using driver::StepState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Plan plan_with_reboot(bool reboot = false) {
  Plan plan;
  plan.id = "test";
  plan.prelude = "P\n";
  for (const char* id : {"a", "b", "c", "d"})
    plan.steps.push_back(
        {.id = id, .title = id, .commands = std::string("do ") + id, .undo = std::string("undo ") + id});
  plan.steps[1].undo = "";
  plan.steps[2].check = "check c";
  plan.steps[2].reboot = reboot;
  return plan;
}

class DriverRuns : public ::testing::Test {
 protected:
  /// What the shell was told: "a", "c/check", "c/undo".
  std::vector<std::string> told_;
  std::string fails_at_;     ///< the step whose shell ends with an error
  std::string vanishes_at_;  ///< the step in which gpuwarden ends; what was done of it nobody knows
  bool done_ = false;        ///< what `check` finds
  testing::TempDir dir_;
  testing::FakeClock clock_;

  driver::ShellRunner shell() {
    return [this](const std::string& text, const std::string& step, const std::string&) -> Result<Completed> {
      EXPECT_THAT(text, HasSubstr("P\n"));
      EXPECT_THAT(text, HasSubstr("B=/var/lib/gpuwarden/driver/test"));
      told_.push_back(step);
      if (step == vanishes_at_) return fail(ErrorCode::interrupted, "gone");
      Completed completed;
      completed.exit_code = step == fails_at_ || (step.ends_with("/check") && !done_) ? 1 : 0;
      if (!step.contains('/') && completed.exit_code == 0) done_ = step == "c" || done_;
      return completed;
    };
  }
  Result<DriverProcedure> open() { return DriverProcedure::open(dir_.path(), shell(), clock_); }
  DriverProcedure opened() { return std::move(open()).value(); }
  void boot(const std::string& id) const { testing::put(dir_ / "proc/sys/kernel/random/boot_id", id + "\n"); }
};

TEST_F(DriverRuns, GoThroughAllStepsAndKeepTheRecord) {
  auto procedure = opened();
  std::vector<std::string> heard;
  const auto state = procedure.apply(plan_with_reboot(), [&](const driver::StepReport& report) {
    heard.push_back(report.step->id + ":" + std::string(to_string(report.state)));
  });
  ASSERT_TRUE(state.has_value()) << state.error().message;
  EXPECT_EQ(*state, RunState::completed);
  EXPECT_THAT(told_, ElementsAre("a", "b", "c", "c/check", "d"));
  EXPECT_THAT(heard,
              ElementsAre("a:started", "a:done", "b:started", "b:done", "c:started", "c:done", "d:started", "d:done"));
  const auto history = DriverProcedure::history(dir_.path());
  ASSERT_TRUE(history.has_value());
  EXPECT_EQ(history->at(0).state, RunState::completed);
  EXPECT_EQ(procedure.open_run(), nullptr);
  EXPECT_EQ(procedure.latest()->plan.id, "test");
}

TEST_F(DriverRuns, StopWhereAStepFailsAndResumeThere) {
  for (const char* step : {"a", "b", "c", "d"}) {
    const testing::TempDir dir;
    auto procedure = DriverProcedure::open(dir.path(), shell(), clock_).value();
    fails_at_ = step;
    done_ = false;
    EXPECT_EQ(procedure.apply(plan_with_reboot(), {}).value(), RunState::failed) << step;
    EXPECT_EQ(told_.back(), step);
    told_.clear();
    fails_at_ = "";
    EXPECT_EQ(procedure.resume({}).value(), RunState::completed) << step;
    EXPECT_EQ(told_.front(), std::string(step) == "c" ? "c/check" : step);
  }
}

TEST_F(DriverRuns, CanBeResumedByAnotherProcessAfterEveryInterruption) {
  for (const char* step : {"a", "b", "c", "c/check", "d"}) {
    const testing::TempDir dir;
    vanishes_at_ = step;
    done_ = false;
    {
      auto procedure = DriverProcedure::open(dir.path(), shell(), clock_).value();
      EXPECT_EQ(procedure.apply(plan_with_reboot(), {}).error().code, ErrorCode::interrupted);
    }
    vanishes_at_ = "";
    auto procedure = DriverProcedure::open(dir.path(), shell(), clock_).value();
    ASSERT_NE(procedure.open_run(), nullptr) << step;
    EXPECT_EQ(procedure.open_run()->state, RunState::in_progress);
    EXPECT_EQ(procedure.resume({}).value(), RunState::completed) << step;
  }
}

TEST_F(DriverRuns, DoNotRepeatAStepThatItsCheckFindsDone) {
  vanishes_at_ = "c";
  {
    auto procedure = opened();
    EXPECT_FALSE(procedure.apply(plan_with_reboot(), {}).has_value());
  }
  vanishes_at_ = "";
  done_ = true;
  told_.clear();
  auto procedure = opened();
  EXPECT_EQ(procedure.resume({}).value(), RunState::completed);
  EXPECT_THAT(told_, ElementsAre("c/check", "d"));
}

TEST_F(DriverRuns, CallAStepFailedWhoseCheckDeniesIt) {
  auto procedure = opened();
  fails_at_ = "c/check";
  EXPECT_EQ(procedure.apply(plan_with_reboot(), {}).value(), RunState::failed);
  EXPECT_THAT(procedure.latest()->message, HasSubstr("its commands succeeded, but it is not done"));
}

TEST_F(DriverRuns, LeadBackInReverseFromTheStepThatFailed) {
  auto procedure = opened();
  fails_at_ = "d";
  EXPECT_EQ(procedure.apply(plan_with_reboot(), {}).value(), RunState::failed);
  told_.clear();
  EXPECT_EQ(procedure.rollback({}).value(), RunState::rolled_back);
  EXPECT_THAT(told_, ElementsAre("d/undo", "c/undo", "a/undo"));
  EXPECT_EQ(procedure.open_run(), nullptr);
}

TEST_F(DriverRuns, LeadBackACompletedRunOnce) {
  auto procedure = opened();
  ASSERT_TRUE(procedure.apply(plan_with_reboot(), {}).has_value());
  told_.clear();
  EXPECT_EQ(procedure.rollback({}).value(), RunState::rolled_back);
  EXPECT_THAT(told_, ElementsAre("d/undo", "c/undo", "a/undo"));
  EXPECT_EQ(procedure.rollback({}).error().code, ErrorCode::unsatisfied);
}

TEST_F(DriverRuns, GoOnWithAnInterruptedWayBackButNeverForwardFromIt) {
  auto procedure = opened();
  ASSERT_TRUE(procedure.apply(plan_with_reboot(), {}).has_value());
  fails_at_ = "c/undo";
  EXPECT_EQ(procedure.rollback({}).value(), RunState::failed);
  EXPECT_THAT(procedure.resume({}).error().message, HasSubstr("on its way back"));
  fails_at_ = "";
  told_.clear();
  EXPECT_EQ(procedure.rollback({}).value(), RunState::rolled_back);
  EXPECT_THAT(told_, ElementsAre("c/undo", "a/undo"));
}

TEST_F(DriverRuns, UndoNothingThatWasNeverBegun) {
  auto procedure = opened();
  fails_at_ = "a";
  EXPECT_EQ(procedure.apply(plan_with_reboot(), {}).value(), RunState::failed);
  told_.clear();
  EXPECT_EQ(procedure.rollback({}).value(), RunState::rolled_back);
  EXPECT_THAT(told_, ElementsAre("a/undo"));
}

TEST_F(DriverRuns, WaitForAnotherBootBeforeTheyGoOn) {
  boot("first");
  auto procedure = opened();
  EXPECT_EQ(procedure.apply(plan_with_reboot(true), {}).value(), RunState::waiting_for_reboot);
  EXPECT_THAT(procedure.resume({}).error().message, HasSubstr("has not been rebooted"));
  boot("second");
  told_.clear();
  EXPECT_EQ(procedure.resume({}).value(), RunState::completed);
  EXPECT_THAT(told_, ElementsAre("d"));
}

TEST_F(DriverRuns, DoNotBeginBesideAnUnfinishedOne) {
  auto procedure = opened();
  fails_at_ = "b";
  ASSERT_TRUE(procedure.apply(plan_with_reboot(), {}).has_value());
  const auto second = procedure.apply(plan_with_reboot(), {});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(second.error().hint, HasSubstr("--resume"));
}

TEST_F(DriverRuns, AreForOneProcessAtATime) {
  const auto first = opened();
  const auto second = open();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(second.error().message, HasSubstr("another gpuwarden"));
}

TEST_F(DriverRuns, MendAJournalThatWasCutOffInItsLastLine) {
  fails_at_ = "b";
  ASSERT_TRUE(opened().apply(plan_with_reboot(), {}).has_value());
  const auto file = dir_ / "var/lib/gpuwarden/driver/journal.jsonl";
  const std::string whole = read_file(file).value();
  testing::put(file, whole + "{\"at\":\"2026");
  fails_at_ = "";
  auto procedure = opened();
  EXPECT_EQ(read_file(file).value(), whole);
  EXPECT_EQ(procedure.resume({}).value(), RunState::completed);
}

TEST_F(DriverRuns, RefuseADamagedJournal) {
  testing::put(dir_ / "var/lib/gpuwarden/driver/journal.jsonl", "nonsense\n{\"event\":\"begin\"}\n");
  EXPECT_EQ(open().error().code, ErrorCode::corrupt);
  EXPECT_EQ(DriverProcedure::history(dir_.path()).error().code, ErrorCode::corrupt);
}

TEST_F(DriverRuns, HaveNoHistoryWhereNothingWasDone) {
  EXPECT_THAT(DriverProcedure::history(dir_.path()).value(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "var"));
  EXPECT_EQ(opened().resume({}).error().code, ErrorCode::unsatisfied);
}

TEST_F(DriverRuns, KeepTheirRecordsFromOtherUsers) {
  const auto procedure = opened();
  const auto mode = std::filesystem::status(dir_ / "var/lib/gpuwarden/driver").permissions();
  EXPECT_EQ(mode & std::filesystem::perms::all, std::filesystem::perms::owner_all);
}

TEST_F(DriverRuns, LeaveTheModeOfAFolderThatWasThereBefore) {
  const auto folder = dir_ / "var/lib/gpuwarden/driver";
  std::filesystem::create_directories(folder);
  const auto mode = std::filesystem::perms(0755);
  std::filesystem::permissions(folder, mode);
  ASSERT_TRUE(open().has_value());
  EXPECT_EQ(std::filesystem::status(folder).permissions() & std::filesystem::perms::all, mode);
}

TEST_F(DriverRuns, FollowNoLinkOutOfTheRoot) {
  for (const char* link : {"var", "var/lib", "var/lib/gpuwarden", "var/lib/gpuwarden/driver"}) {
    const testing::TempDir root;
    for (const bool exists : {true, false}) {
      const testing::TempDir outside;
      const auto target = exists ? outside.path() : outside / "not-yet";
      std::filesystem::create_directories((root / link).parent_path());
      std::filesystem::remove(root / link);
      std::filesystem::create_directory_symlink(target, root / link);
      const auto refused = DriverProcedure::open(root.path(), shell(), clock_);
      ASSERT_FALSE(refused.has_value()) << link;
      EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied) << link;
      EXPECT_THAT(refused.error().message, HasSubstr("leads out of")) << link;
      EXPECT_FALSE(DriverProcedure::history(root.path()).has_value()) << link;
      EXPECT_TRUE(std::filesystem::is_empty(outside.path())) << link;
    }
  }
  // A relative link inside is as good as a folder.
  std::filesystem::create_directories(dir_ / "data/lib");
  std::filesystem::create_directory_symlink("data", dir_ / "var");
  ASSERT_TRUE(open().has_value());
  EXPECT_TRUE(std::filesystem::exists(dir_ / "data/lib/gpuwarden/driver/journal.jsonl"));
}

TEST_F(DriverRuns, WriteNoRecordThroughALinkOfTheImage) {
  const testing::TempDir outside;
  auto procedure = opened();
  std::filesystem::create_directory_symlink(outside.path(), dir_ / "var/lib/gpuwarden/driver/test");
  EXPECT_FALSE(procedure.apply(plan_with_reboot(), {}).has_value());
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(DriverRuns, MakeNothingWhereThereIsNothingToLeadBack) {
  const auto opened = DriverProcedure::open(dir_.path(), shell(), clock_, driver::Records::must_exist);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::unsatisfied);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  ASSERT_TRUE(open()->apply(plan_with_reboot(), {}).has_value());
  EXPECT_TRUE(DriverProcedure::open(dir_.path(), shell(), clock_, driver::Records::must_exist).has_value());
}

TEST_F(DriverRuns, DoNotPretendAWayBackWithoutTheRecords) {
  auto procedure = opened();
  Plan plan = plan_with_reboot();
  plan.steps[0].id = "record";
  const auto complete = dir_ / "var/lib/gpuwarden/driver/test/complete";
  fails_at_ = "d";
  ASSERT_EQ(procedure.apply(plan, {}).value(), RunState::failed);
  told_.clear();
  for (const auto& state : {procedure.rollback({}), procedure.resume({})}) {
    ASSERT_FALSE(state.has_value());
    EXPECT_EQ(state.error().code, ErrorCode::corrupt);
    EXPECT_THAT(state.error().message, HasSubstr("the records of the run test are gone"));
  }
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_EQ(procedure.latest()->state, RunState::failed);
  testing::put(complete, "");
  EXPECT_EQ(procedure.rollback({}).value(), RunState::rolled_back);
}

TEST_F(DriverRuns, KnowWhetherOnlyTheWayBackIsLeft) {
  auto procedure = opened();
  EXPECT_EQ(procedure.to_roll_back(), nullptr);
  fails_at_ = "d";
  ASSERT_TRUE(procedure.apply(plan_with_reboot(), {}).has_value());
  EXPECT_FALSE(is_on_the_way_back(*procedure.to_roll_back()));
  fails_at_ = "c/undo";
  ASSERT_EQ(procedure.rollback({}).value(), RunState::failed);
  EXPECT_TRUE(is_on_the_way_back(*procedure.latest()));
  EXPECT_THAT(procedure.apply(plan_with_reboot(), {}).error().hint, ::testing::Not(HasSubstr("--resume")));
}

TEST_F(DriverRuns, KnowWhetherPeopleMayBeAtTheNewDriver) {
  driver::DriverRun run;
  for (const char* id : {"record", "install", "load", "start-display", "verify"}) run.plan.steps.push_back({.id = id});
  using enum StepState;
  run.steps = {done, failed, pending, pending, pending};
  EXPECT_FALSE(serves_again(run)) << "its way back ends nobody's work";
  run.steps = {done, done, done, done, failed};
  EXPECT_TRUE(serves_again(run)) << "not completed, but at work";
  run.steps = {done, done, done, done, done};
  EXPECT_TRUE(serves_again(run));
  run.steps = {done, undoing, undone, undone, undone};
  EXPECT_FALSE(serves_again(run));
}

// With a real shell: a way there and back over files, in steps that were each written to be run twice.
TEST_F(DriverRuns, CarryRealShellTextOut) {
  const auto shell = [this](const std::string& text, const std::string& step, const std::string& log) {
    std::string local = text;
    for (std::size_t at = 0; (at = local.find("/var/lib", at)) != std::string::npos;
         at += dir_.path().string().size() + 8)
      local.replace(at, 8, dir_.path().string() + "/var/lib");
    return testing::run_patiently({.argv = {"sh", "-euc", "exec >>" + dir_.path().string() + log + " 2>&1\n" + local},
                                   .environment = Environment{{"PATH", "/usr/bin:/bin"}, {"GPUWARDEN_STEP", step}}});
  };
  Plan plan = plan_with_reboot();
  plan.prelude = "P() { :; }\nP\n";
  for (auto& step : plan.steps) {
    step.commands = "echo " + step.id + " >\"$B/" + step.id + "\"\n";
    step.check = "[ -s \"$B/" + step.id + "\" ]\n";
    step.undo = "rm -f \"$B/" + step.id + "\"\n";
  }
  plan.steps[3].commands += "echo 'no room on the disk'; exit 4\n";
  auto procedure = DriverProcedure::open(dir_.path(), shell, clock_).value();
  EXPECT_EQ(procedure.apply(plan, {}).value(), RunState::failed);
  EXPECT_EQ(procedure.latest()->message, "no room on the disk");
  const auto records = dir_ / "var/lib/gpuwarden/driver/test";
  EXPECT_EQ(read_file(records / "c").value(), "c\n");
  EXPECT_EQ(procedure.rollback({}).value(), RunState::rolled_back);
  EXPECT_FALSE(std::filesystem::exists(records / "a"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "var/lib/gpuwarden/driver/running"));
}

}  // namespace
}  // namespace gpuwarden
