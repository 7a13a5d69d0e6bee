// SPDX-License-Identifier: Apache-2.0
// What becomes of a job when those who look after it are killed or stopped, and when its output cannot be written.
#include <fcntl.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <thread>

#include "gpuwarden/launch/leftovers.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "launch/jobs.hpp"
#include "launch/record.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kEndsWhenTold =
    "echo $$ > $DIR/up.$RANK; while [ ! -e $DIR/go ]; do sleep 0.02; done; [ $RANK = 0 ] || exit 0; exit 5";

class Supervision : public Jobs {
 protected:
  /// Kills the guardians whose places are named, and expects the job to go on and to end as if nothing had happened.
  void expect_unharmed(const std::vector<std::size_t>& victims) {
    const JobSpec spec = shell(kEndsWhenTold, 2);
    const Team team = launch_team(spec);
    ASSERT_TRUE(soon([&] { return all_up(2); }));
    for (const std::size_t victim : victims) {
      const auto before = victim < 2 ? team.guardians : guardians_below(team.launcher);
      const pid_t lost = victim < 2 ? before[victim] : before.back();
      ::kill(lost, SIGKILL);
      ASSERT_TRUE(soon([&] {
        const auto now = guardians_below(team.launcher);
        return !runs(lost) && std::ranges::any_of(now, [&](pid_t pid) {
          return std::ranges::find(team.guardians, pid) == team.guardians.end() && pid != lost;
        });
      })) << "another one is started";
    }
    put(dir_ / "go", "");
    EXPECT_EQ(wait_for(team.launcher), 5);
    EXPECT_TRUE(processes_of_run(spec.run_id).empty());
    EXPECT_TRUE(soon([&] { return !runs(team.guardians[0]) && !runs(team.guardians[1]); }));
  }
};

TEST_F(Supervision, TheJobGoesOnWithoutItsOuterGuardian) { expect_unharmed({0}); }
TEST_F(Supervision, TheJobGoesOnWithoutItsInnerGuardianAndKeepsItsExitCode) { expect_unharmed({1}); }
TEST_F(Supervision, AGuardianThatWasStartedInsteadIsReplacedAsWell) { expect_unharmed({0, 2, 2}); }

TEST_F(Supervision, ALauncherThatIsKilledAfterAGuardianStillLeavesNothing) {
  for (const std::size_t victim : {0, 1}) {
    JobSpec spec = shell("trap '' TERM; echo $$ > $DIR/up.$RANK; while :; do sleep 0.05; done", 2);
    const Team team = launch_team(spec);
    ASSERT_TRUE(soon([&] { return all_up(2); }));
    ::kill(team.guardians[victim], SIGKILL);
    ASSERT_TRUE(soon(
        [&] { return !runs(team.guardians[victim]) && guardians_below(team.launcher).size() == 2 - (victim == 0); }));
    ::kill(team.launcher, SIGKILL);
    wait_for(team.launcher);
    EXPECT_TRUE(soon([&] { return !runs(rank_pid(0)) && !runs(rank_pid(1)); })) << "guardian " << victim;
    EXPECT_TRUE(soon([&] { return !runs(team.guardians[1 - victim]); }));
    for (const char* name : {"up.0", "up.1"}) std::filesystem::remove(dir_ / name);
  }
}

TEST_F(Supervision, WithoutAnyGuardianTheJobEndsAndSaysSo) {
  const JobSpec spec = shell("trap '' TERM; echo $$ > $DIR/up.$RANK; while :; do sleep 0.05; done", 2);
  const Team team = launch_team(spec);
  ASSERT_TRUE(soon([&] { return all_up(2); }));
  for (const pid_t guardian : team.guardians) ::kill(guardian, SIGSTOP);
  for (const pid_t guardian : team.guardians) ::kill(guardian, SIGKILL);
  EXPECT_EQ(wait_for(team.launcher), 128 + SIGKILL);
  EXPECT_TRUE(soon([&] { return !runs(rank_pid(0)) && !runs(rank_pid(1)); }));
}

TEST_F(Supervision, RanksDieWithTheLastOfTheirSupervisorsThoughNobodyKillsThem) {
  const JobSpec spec = shell("trap '' TERM HUP; echo $$ > $DIR/up.$RANK; while :; do sleep 0.05; done", 2);
  const Team team = launch_team(spec);
  ASSERT_TRUE(soon([&] { return all_up(2); }));
  for (const pid_t pid : {team.launcher, team.guardians[0], team.guardians[1]}) ::kill(pid, SIGSTOP);
  for (const pid_t pid : {team.launcher, team.guardians[0], team.guardians[1]}) ::kill(pid, SIGKILL);
  wait_for(team.launcher);
  EXPECT_TRUE(soon([&] { return !runs(rank_pid(0)) && !runs(rank_pid(1)); }));
}

TEST_F(Supervision, AGuardianThatIsStoppedDoesNotStopTheJob) {
  const JobSpec spec = shell(kEndsWhenTold, 2);
  const Team team = launch_team(spec);
  ASSERT_TRUE(soon([&] { return all_up(2); }));
  for (const pid_t guardian : team.guardians) ::kill(guardian, SIGSTOP);
  put(dir_ / "go", "");
  EXPECT_EQ(wait_for(team.launcher), 5);
}

TEST_F(Supervision, AProcessIsKnownToRunAProgramOfItsOwn) {
  EXPECT_TRUE(has_executed(::getpid()));
  EXPECT_FALSE(has_executed(0));
  Pipe hold = make_pipe().value();
  const pid_t child = ::fork();
  if (child == 0) {
    hold.write_end.reset();
    char byte = 0;
    while (::read(hold.read_end.get(), &byte, 1) < 0) continue;
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(127);
  }
  EXPECT_FALSE(has_executed(child)) << "forked, and no more";
  hold.write_end.reset();
  EXPECT_TRUE(soon([&] { return has_executed(child); }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(Supervision, ChildrenOfTheProgramAreItsOwnToWaitFor) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(42);
  std::jthread elsewhere([&] {
    EXPECT_THAT(run_job(shell("exit 3", 2), system_clock()), IsOkAnd(::testing::Field(&JobEnd::exit_code, 3)));
  });
  elsewhere.join();
  int subreaper = -1;
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  EXPECT_EQ(subreaper, 0);
  EXPECT_EQ(wait_for(child), 42);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "and no others are left to it";
}

TEST_F(Supervision, AStopTokenEndsTheJobAndTheProgramsSignalsStayAsTheyAre) {
  std::stop_source stop;
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::jthread waiter([&] {
    EXPECT_TRUE(soon([&] { return all_up(1); }));
    stop.request_stop();
  });
  const auto end = run_job(shell("echo $$ > $DIR/up.0; exec sleep 1000"), system_clock(), {.stop = stop.get_token()});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 143);
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

TEST_F(Supervision, TheRankThatFailedFirstIsNamedThoughOthersHaveALowerNumber) {
  const auto end = run_job(shell("[ $RANK = 2 ] && exit 9; while :; do sleep 0.05; done", 3), system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->first_failure, 2U);
  EXPECT_EQ(end->exit_code, 9);
}

class Output : public Supervision {
 protected:
  /// Runs the job in a process of its own whose standard output is `fd`.
  pid_t launch_into(JobSpec spec, int fd) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(fd, 1);
      ::close_range(3, ~0U, 0);
      spec.takes_signals = true;
      const auto end = run_job(spec, system_clock(), {.warning = [&](const std::string& text) {
                                 put(dir_ / "warnings", file("warnings") + text + "\n");
                               }});
      ::_exit(end ? end->exit_code : 99);
    }
    return pid;
  }
};

TEST_F(Output, RanksEndWhenNobodyReadsThemAnyMore) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t launcher = launch_into(shell("exec yes", 2), pipe[1]);
  ::close(pipe[1]);
  std::array<char, 4096> some{};
  EXPECT_GT(::read(pipe[0], some.data(), some.size()), 0);
  ::close(pipe[0]);
  EXPECT_EQ(wait_for(launcher), 128 + SIGPIPE) << "as if piped directly";
}

TEST_F(Output, AReaderThatDoesNotReadCannotKeepALauncherFromItsSignals) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t launcher = launch_into(shell("echo $$ > $DIR/up.$RANK; exec yes", 2), pipe[1]);
  ::close(pipe[1]);
  ASSERT_TRUE(soon([&] { return all_up(2); }));
  ::kill(launcher, SIGTERM);
  // Output that is left is waited for until somebody is tired of it.
  EXPECT_TRUE(soon([&] {
    ::kill(launcher, SIGTERM);
    int status = 0;
    return ::waitpid(launcher, &status, WNOHANG) == launcher && WIFEXITED(status) && WEXITSTATUS(status) == 143;
  }));
  ::close(pipe[0]);
}

TEST_F(Output, WhatCannotBeWrittenIsSaidOnceAndFailsTheJob) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(wait_for(launch_into(shell("echo one; echo two", 2), full.get())), 1);
  EXPECT_EQ(file("warnings"), "(none)cannot write standard output: No space left on device; the rest is lost\n");
}

TEST_F(Output, ALogThatIsFullIsSaidOnceAndTheJobsOwnCodeWins) {
  std::filesystem::create_symlink("/dev/full", dir_ / "rank-1.out");
  JobSpec spec = shell("echo text; echo text >&2", 2);
  spec.log_directory = dir_.path();
  auto end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 1);
  EXPECT_TRUE(end->lost_output);
  EXPECT_THAT(end->warnings, ElementsAre(HasSubstr("log of rank 1")));
  EXPECT_EQ(file("rank-1.err"), "text\n");
  spec = shell("echo text; exit 6", 2);
  spec.log_directory = dir_.path();
  end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 6);
}

TEST_F(Supervision, WhatOutlivedAllSupervisorsIsFoundAndEnded) {
  JobSpec spec = shell("setsid sh -c 'echo $$ > $DIR/up.0; exec sleep 1000' & wait");
  spec.record_directory = dir_.path();
  const Team team = launch_team(spec);
  ASSERT_TRUE(soon([&] { return all_up(1); }));
  EXPECT_THAT(find_leftovers(dir_.path()), IsEmpty()) << "its supervisors live";
  EXPECT_THAT(
      end_leftover(dir_.path(), spec.run_id, system_clock()),
      FailsWith(ErrorCode::invalid_argument, HasSubstr("launcher (pid " + std::to_string(team.launcher) + ")")));
  for (const pid_t pid : {team.launcher, team.guardians[0], team.guardians[1]}) ::kill(pid, SIGSTOP);
  for (const pid_t pid : {team.launcher, team.guardians[0], team.guardians[1]}) ::kill(pid, SIGKILL);
  wait_for(team.launcher);
  std::vector<Leftover> found;
  ASSERT_TRUE(soon([&] {
    found = find_leftovers(dir_.path());
    return found.size() == 1 && found[0].processes.size() == 1;
  }));
  EXPECT_EQ(found[0].run_id, spec.run_id);
  EXPECT_EQ(found[0].processes[0].value, rank_pid(0));
  EXPECT_THAT(end_leftover(dir_.path(), "no-such-run", system_clock()),
              FailsWith(ErrorCode::not_found, HasSubstr("no-such-run")));
  ASSERT_THAT(end_leftover(dir_.path(), spec.run_id, system_clock()), IsOk());
  EXPECT_FALSE(runs(rank_pid(0)));
  EXPECT_THAT(find_leftovers(dir_.path()), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dir_ / ("run-" + spec.run_id + ".job")));
}

TEST_F(Supervision, WhatClearedItsEnvironmentIsFoundByTheLeaseThatItHolds) {
  const std::string run_id = make_run_id();
  const std::filesystem::path folder = dir_ / "leases";
  const pid_t stray = ::fork();
  if (stray == 0) {
    const auto store = lease::LeaseStore::open({.directory = folder,
                                                .prefix = lease::kSimulatedPrefix,
                                                .self = {Pid{::getpid()}, "", run_id, "train", std::nullopt}},
                                               system_clock());
    const auto choose = [](const lease::Situation&) -> Result<lease::Choice> {
      return lease::Choice{{lease::Device{Uuid("GPU-a"), {}}}, false};
    };
    const auto held = store->claim({}, choose);
    if (!held || !*held) ::_exit(120);
    // Its lock goes with the program that begins.
    const auto record = RunRecord::make(folder, run_id, {}, (*held)->descriptors());
    if (!record) ::_exit(120);
    put(dir_ / "up.0", std::to_string(::getpid()));
    const char* const none[] = {nullptr};
    ::execle("/bin/sleep", "sleep", "600", nullptr, none);
    ::_exit(120);
  }
  ASSERT_TRUE(soon([&] { return all_up(1); }));
  std::vector<Leftover> found;
  ASSERT_TRUE(soon([&] {
    found = end_own_leftovers(folder, system_clock());
    return !found.empty();
  }));
  EXPECT_FALSE(found[0].ended) << "it is in no control group of the run's: something else may be among them";
  EXPECT_THAT(found[0].processes, ElementsAre(Pid{stray}));
  const auto ended = end_leftover(folder, run_id, system_clock());
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(*ended, ElementsAre(Pid{stray}));
  EXPECT_EQ(wait_for(stray), 128 + SIGTERM);
  EXPECT_THAT(find_leftovers(folder), IsEmpty());
}

TEST_F(Supervision, RanksThatMustShareGpusAreSpreadAndItIsSaid) {
  JobSpec spec = shell("echo $CUDA_VISIBLE_DEVICES > $DIR/r.$RANK", 3);
  spec.one_device_per_rank = true;
  const auto end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(file("r.1"), "GPU-b\n");
  EXPECT_EQ(file("r.2"), "GPU-a\n");
  EXPECT_THAT(end->warnings, ElementsAre(HasSubstr("3 ranks share 2 GPUs")));
}

TEST_F(Supervision, ARunThatEndsWellLeavesNoRecord) {
  JobSpec spec = shell("ls $DIR > $DIR/list");
  spec.record_directory = dir_.path();
  ASSERT_THAT(run_job(spec, system_clock()), IsOk());
  EXPECT_THAT(file("list"), HasSubstr("run-" + spec.run_id + ".job"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / ("run-" + spec.run_id + ".job")));
}

}  // namespace
}  // namespace gpuwarden::launch
