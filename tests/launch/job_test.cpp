// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/job.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "launch/jobs.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(Jobs, RanksGetTorchrunsVariables) {
  JobSpec spec = shell("env | sort > $DIR/env.$RANK", 2);
  spec.extra_environment["GPUWARDEN_STRATEGY"] = "ddp";
  const auto end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 0);
  const std::string one = file("env.1");
  for (const char* line :
       {"RANK=1\n", "LOCAL_RANK=1\n", "WORLD_SIZE=2\n", "LOCAL_WORLD_SIZE=2\n", "MASTER_ADDR=127.0.0.1\n",
        "GROUP_RANK=0\n", "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b\n", "CUDA_DEVICE_ORDER=PCI_BUS_ID\n",
        "TORCHELASTIC_RESTART_COUNT=0\n", "GPUWARDEN_STRATEGY=ddp\n"}) {
    EXPECT_THAT(one, HasSubstr(line));
  }
  EXPECT_THAT(one, HasSubstr("GPUWARDEN_RUN_ID=" + spec.run_id));
  const auto port_line = [](const std::string& env) { return env.substr(env.find("MASTER_PORT="), 18); };
  EXPECT_EQ(port_line(one), port_line(file("env.0")));
}

TEST_F(Jobs, OneDevicePerRankLooksLikeDeviceZero) {
  JobSpec spec = shell("echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES > $DIR/r.$RANK", 2);
  spec.one_device_per_rank = true;
  ASSERT_THAT(run_job(spec, system_clock()), IsOk());
  EXPECT_EQ(file("r.0"), "0 0 GPU-a\n");
  EXPECT_EQ(file("r.1"), "1 0 GPU-b\n");
}

TEST_F(Jobs, WhatTheJobRestsOnIsLookedAfterMeanwhile) {
  FakeClock clock;
  const auto end = run_job(shell("while [ ! -e $DIR/seen ]; do sleep 0.01; done"), clock,
                           {.rank_started = [&](std::uint32_t, Pid) { clock.advance(kLookAfterPeriod); },
                            .look_after =
                                [&] {
                                  std::ofstream(dir_ / "seen") << "yes";
                                  return std::vector<std::string>{"the lock was made again"};
                                }});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 0);
  EXPECT_THAT(end->warnings, ElementsAre("the lock was made again"));
}

TEST_F(Jobs, ThePortIsFreeAndOutsideTheEphemeralRange) {
  const auto port = find_free_port();
  ASSERT_THAT(port, IsOk());
  EXPECT_GE(*port, 15000);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(*port);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket.get(), 1), 0);
}

TEST_F(Jobs, LogsAreKeptPerRankAndLinesCarryTheirRank) {
  JobSpec spec = shell("echo out-$RANK; echo err-$RANK >&2; printf partial-$RANK", 2);
  spec.log_directory = dir_.path();
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const auto end = run_job(spec, system_clock());
  const std::string out = ::testing::internal::GetCapturedStdout();
  const std::string err = ::testing::internal::GetCapturedStderr();
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(file("rank-0.out"), "out-0\npartial-0");
  EXPECT_EQ(file("rank-1.err"), "err-1\n");
  EXPECT_THAT(out, HasSubstr("[rank 1] out-1\n"));
  EXPECT_THAT(out, HasSubstr("[rank 0] partial-0\n"));
  EXPECT_THAT(err, HasSubstr("[rank 1] err-1\n"));
}

TEST_F(Jobs, TheFirstFailureStopsTheOthersAndNamesTheCode) {
  const auto start = std::chrono::steady_clock::now();
  const auto end = run_job(shell("if [ $RANK = 1 ]; then exit 7; fi; sleep 60", 3), system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 7);
  EXPECT_EQ(end->first_failure, 1U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
}

TEST_F(Jobs, ASignalBecomesItsShellCode) {
  const auto end = run_job(shell("kill -SEGV $$"), system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 128 + SIGSEGV);
  EXPECT_EQ(end->ranks[0].signal, SIGSEGV);
}

TEST_F(Jobs, WhatCannotBeStartedIsAnErrorAndNothingRuns) {
  JobSpec spec = shell("");
  spec.argv = {"no-such-command-at-all"};
  EXPECT_THAT(run_job(spec, system_clock()), FailsWith(ErrorCode::not_found, HasSubstr("no-such-command")));
  spec.argv = {"/etc/passwd"};
  EXPECT_THAT(run_job(spec, system_clock()), FailsWith(ErrorCode::permission_denied, HasSubstr("/etc/passwd")));
  EXPECT_TRUE(processes_of_run(spec.run_id).empty());
}

TEST_F(Jobs, NoOrphanIsLeftNotEvenOneThatChangedItsSessionAndIgnoresSigterm) {
  JobSpec spec = shell(
      "(setsid sh -c 'trap \"\" TERM; echo $$ > $DIR/orphan; exec >/dev/null 2>&1; while :; do sleep 1; done' &) ; "
      "while [ ! -s $DIR/orphan ]; do sleep 0.01; done");
  spec.log_directory = dir_.path();
  const auto end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 0);
  EXPECT_TRUE(end->warnings.empty());
  EXPECT_TRUE(processes_of_run(spec.run_id).empty());
  EXPECT_NE(file("orphan"), "(none)") << "there was an orphan to end";
}

TEST_F(Jobs, AForwardedSigtermLetsTheJobTidyUp) {
  JobSpec spec =
      shell("trap 'echo saved > $DIR/saved; exit 0' TERM; echo up > $DIR/up.$RANK; while :; do sleep 0.05; done", 2);
  spec.grace = kSoon;  // it ends by itself, however slowly
  const pid_t launcher = launch(spec);
  ASSERT_TRUE(soon([&] { return file("up.0") == "up\n" && file("up.1") == "up\n"; }));
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(wait_for(launcher), 0) << "the job ended by itself";
  EXPECT_EQ(file("saved"), "saved\n");
}

TEST_F(Jobs, WhatProgramsGiveTheirOwnMeaningReachesTheRanksAloneAndEndsNothing) {
  // The helper would die of it; a shell hears a signal only when what it waits for has ended.
  const pid_t launcher = launch(
      shell("sleep 600 & helper=$!; trap 'echo one >> $DIR/heard.$RANK' USR1; trap 'kill -0 $helper && exit 7' USR2; "
            "echo up > $DIR/up.$RANK; while :; do sleep 0.05; done",
            2));
  ASSERT_TRUE(soon([&] { return file("up.0") == "up\n" && file("up.1") == "up\n"; }));
  ::kill(launcher, SIGUSR1);
  EXPECT_TRUE(soon([&] { return file("heard.0") == "one\n" && file("heard.1") == "one\n"; }));
  ::kill(launcher, SIGUSR2);
  EXPECT_EQ(wait_for(launcher), 7) << "the job ended as it wanted to";
}

TEST_F(Jobs, WhatProgramsGiveTheirOwnMeaningStaysIgnoredWhereItWas) {
  ::signal(SIGUSR1, SIG_IGN);
  const pid_t launcher = launch(shell("echo up > $DIR/up; while [ ! -e $DIR/go ]; do sleep 0.02; done; kill -USR1 $$"));
  ::signal(SIGUSR1, SIG_DFL);
  ASSERT_TRUE(soon([&] { return file("up") == "up\n"; }));
  ::kill(launcher, SIGUSR1);
  put(dir_ / "go", "");
  EXPECT_EQ(wait_for(launcher), 0) << "ranks ignore it as well";
}

TEST_F(Jobs, WhoDoesNotListenIsKilledAfterTheGracePeriod) {
  JobSpec spec = shell("trap '' TERM INT; echo up > $DIR/up; while :; do sleep 0.05; done");
  spec.grace = 200ms;
  const pid_t launcher = launch(spec);
  ASSERT_TRUE(soon([&] { return file("up") == "up\n"; }));
  ::kill(launcher, SIGINT);
  EXPECT_EQ(wait_for(launcher), 130);
  EXPECT_TRUE(soon([&] { return processes_of_run(spec.run_id).empty(); }));
}

TEST_F(Jobs, TheGuardianClearsUpAfterALauncherThatWasKilled) {
  const JobSpec spec = shell(
      "(setsid sh -c 'trap \"\" TERM; exec >/dev/null 2>&1; echo $$ > $DIR/orphan; while :; do sleep 1; done' &) ; "
      "while :; do sleep 0.05; done",
      2);
  const pid_t bystander = ::fork();
  if (bystander == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  const pid_t launcher = launch(spec);
  ASSERT_TRUE(soon([&] { return file("orphan") != "(none)"; }));
  ::kill(launcher, SIGKILL);
  wait_for(launcher);
  EXPECT_TRUE(soon([&] { return processes_of_run(spec.run_id).empty(); }));
  EXPECT_EQ(::kill(bystander, 0), 0) << "a process without the id is nobody's business";
  ::kill(bystander, SIGKILL);
  wait_for(bystander);
}

TEST_F(Jobs, RanksAndGuardianHoldTheDescriptorsUntilTheEnd) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  JobSpec spec = shell("trap '' TERM; echo up > $DIR/up; exec sleep 1000");
  spec.held_descriptors = {pipe[1]};
  const pid_t launcher = launch(spec);
  ::close(pipe[1]);
  ASSERT_TRUE(soon([&] { return file("up") == "up\n"; }));
  ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  char c = 0;
  EXPECT_EQ(::read(pipe[0], &c, 1), -1) << "somebody holds the other end";
  ::kill(launcher, SIGKILL);
  wait_for(launcher);
  EXPECT_TRUE(soon([&] { return ::read(pipe[0], &c, 1) == 0; })) << "all copies are closed";
  EXPECT_TRUE(processes_of_run(spec.run_id).empty()) << "and not before the last process was gone";
  ::close(pipe[0]);
}

}  // namespace
}  // namespace gpuwarden::launch
