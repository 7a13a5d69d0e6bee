// SPDX-License-Identifier: Apache-2.0
// Leases as users of the command line meet them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LeaseCli : public Program {
 protected:
  LeaseCli() { environment_["GPUWARDEN_SIMULATE"] = "t4x1"; }

  /// Starts the program with its output in `log`; `before` runs in the child.
  pid_t start(std::vector<std::string> words, const std::string& log, const std::function<void()>& before = {}) {
    words.insert(words.begin(), GPUWARDEN_PROGRAM);
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment_) variables.push_back(name + "=" + value);
    std::vector<char*> envp;
    for (auto& variable : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);
    const std::string path = (dir_ / log).string();
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const int out = ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644);
    ::dup2(out, 1);
    ::dup2(out, 2);
    if (before) before();
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(120);
  }
  std::string said(const std::string& log) const { return read_file(dir_ / log).value_or(""); }
  static int code_of(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t hold() {
    const pid_t holder = start({"lease", "--hold"}, "holder");
    EXPECT_TRUE(eventually(kSoon, [&] { return said("holder").contains("held until interrupted"); })) << said("holder");
    return holder;
  }
  bool somebody_waits() const { return json({"lease", "--list"})["waiting"].size() == 1; }
};

TEST_F(LeaseCli, TheListNamesHoldersOfSimulatedGpusWhicheverMachineIsAsked) {
  const pid_t holder = hold();
  const auto here = json({"lease", "--list"});
  ASSERT_EQ(here["leases"].size(), 1U);
  EXPECT_EQ(here["leases"][0]["holders"][0]["pid"], holder);
  environment_.erase("GPUWARDEN_SIMULATE");
  environment_["GPUWARDEN_NVML_LIBRARY"] = "/nowhere/libnvidia-ml.so.1";
  const auto real = json({"lease", "--list"});
  EXPECT_TRUE(real["leases"].empty());
  ASSERT_EQ(real["simulated_leases"].size(), 1U);
  EXPECT_THAT(run({"lease", "--list"}).standard_output,
              AllOf(HasSubstr("[simulated] GPU-"), HasSubstr(fmt::format("pid {}", holder))));
  ::kill(holder, SIGTERM);
  EXPECT_EQ(code_of(holder), 0);
}

TEST_F(LeaseCli, TheListNamesThoseWhoWaitForSimulatedGpusWhicheverMachineIsAsked) {
  const pid_t holder = hold();
  const pid_t waiter = start({"lease", "--wait", "--", "true"}, "waiter");
  EXPECT_TRUE(eventually(kSoon, [&] { return somebody_waits(); }));
  environment_.erase("GPUWARDEN_SIMULATE");
  environment_["GPUWARDEN_NVML_LIBRARY"] = "/nowhere/libnvidia-ml.so.1";
  const auto real = json({"lease", "--list"});
  EXPECT_TRUE(real["waiting"].empty());
  ASSERT_EQ(real["simulated_waiting"].size(), 1U);
  EXPECT_EQ(real["simulated_waiting"][0]["pid"], waiter);
  EXPECT_THAT(run({"lease", "--list"}).standard_output,
              AllOf(HasSubstr("[simulated] waiting: "), HasSubstr(fmt::format(" pid {} for 1 GPUs: true", waiter))));
  ::kill(waiter, SIGTERM);
  EXPECT_EQ(code_of(waiter), 128 + SIGTERM);
  ::kill(holder, SIGTERM);
  EXPECT_EQ(code_of(holder), 0);
}

TEST_F(LeaseCli, ASimulatedFleetLivesAsLongAsTheLeaseThatMadeIt) {
  const auto told = run({"lease", "--", "sh", "-c", GPUWARDEN_PROGRAM " list && " GPUWARDEN_PROGRAM " lease --list"});
  EXPECT_EQ(told.exit_code, 0) << told.standard_error;
  EXPECT_THAT(told.standard_output, AllOf(HasSubstr("lease: "), HasSubstr("T4")));
  EXPECT_TRUE(json({"sim", "list"})["running"].empty()) << "it outlives the lease";
}

TEST_F(LeaseCli, WhatIsStartedWithinALeaseUsesWhatItHolds) {
  const auto within = [&](const std::string& script) { return run({"lease", "--", "sh", "-c", script}); };
  const std::string gw = GPUWARDEN_PROGRAM;
  const auto ran = within(gw + " run -q -- echo hello && " + gw + " select");
  EXPECT_EQ(ran.exit_code, 0) << ran.standard_error;
  EXPECT_THAT(ran.standard_output, AllOf(HasSubstr("hello\n"), HasSubstr("GPU-")));
  EXPECT_EQ(within(gw + " lease -- " + gw + " run -q -- true").exit_code, 0) << "a lease within a lease";
  const auto nested = run({"run", "-q", "--", GPUWARDEN_PROGRAM, "run", "-q", "--", GPUWARDEN_PROGRAM, "select"});
  EXPECT_EQ(nested.exit_code, 0) << nested.standard_error;
  // It goes on holding what it has inherited: nobody outside gets it.
  EXPECT_EQ(run({"run", "-q", "--", "true"}).exit_code, 0) << "something is still held";
}

TEST_F(LeaseCli, WhatACommandOfALeaseStartsHoldsWhatTheCommandChoseAlone) {
  ASSERT_EQ(run({"sim", "start", "lab", "--fleet", "h100x8"}).exit_code, 0);
  environment_["GPUWARDEN_SIMULATE"] = "lab";
  const std::string gw = GPUWARDEN_PROGRAM;
  const std::string count = "ls -l /proc/self/fd | grep -o 'GPU-[0-9a-f-]*' | sort -u | wc -l";
  const auto held = [&](const std::string& inner) {
    return run({"lease", "-n", "3", "--", "sh", "-c", gw + " " + inner + " -- sh -c \"" + count + "\""})
        .standard_output;
  };
  EXPECT_EQ(run({"lease", "-n", "3", "--", "sh", "-c", count}).standard_output, "3\n");
  EXPECT_EQ(held("run -q -n 1"), "1\n");
  EXPECT_EQ(held("run -q -n 2"), "2\n");
  EXPECT_EQ(held("lease -n 1"), "1\n");
  EXPECT_EQ(held("run -q --device cpu"), "3\n") << "it chose none";
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
}

TEST_F(LeaseCli, ALockOfTheUsersOwnStaysWithWhatIsStarted) {
  const std::string lock = (dir_ / "own.lock").string();
  for (const std::string start : {"lease", "run -q"}) {
    const std::string script = "exec 9>" + lock + "; flock 9; exec " GPUWARDEN_PROGRAM " " + start +
                               " -- sh -c 'echo own >&9; flock -n " + lock + " echo free || echo held'";
    const auto told = run_patiently({.argv = {"/bin/bash", "-c", script}, .environment = environment_});
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->standard_output, "held\n") << told->standard_error;
    EXPECT_EQ(read_file(lock).value_or("none"), "own\n") << start;
  }
}

TEST_F(LeaseCli, CommandsWithinOneLeaseKeepOutOfEachOthersWay) {
  const std::string gw = GPUWARDEN_PROGRAM;
  const auto told = run({"lease", "--", "sh", "-c",
                         gw + " run -q -- sh -c 'touch " + (dir_ / "up").string() + "; sleep 100' & while [ ! -e " +
                             (dir_ / "up").string() + " ]; do sleep 0.02; done; " + gw +
                             " run -q -- true; echo $?; kill $!; wait $!; " + gw + " run -q -- true; echo $?"});
  EXPECT_EQ(told.standard_output, "1\n0\n") << told.standard_error;
  EXPECT_THAT(told.standard_error, AllOf(HasSubstr("leased by "), HasSubstr("--wait waits in line")));
}

TEST_F(LeaseCli, NobodyIsToldToWaitForHisOwnLease) {
  const std::string gw = GPUWARDEN_PROGRAM;
  // Descriptors above 2 are closed on the way, as Python's subprocess does it; the shell around it keeps them, and the
  // fleet lives on without.
  ASSERT_EQ(run({"sim", "start", "lab", "--fleet", "t4x1"}).exit_code, 0);
  environment_["GPUWARDEN_SIMULATE"] = "lab";
  const auto closed = run({"lease", "--", "bash", "-c",
                           "(for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; " +
                               gw + " run -q -- true); exit $?"});
  EXPECT_EQ(closed.exit_code, 1);
  EXPECT_THAT(closed.standard_error, HasSubstr("did not inherit its lock"));
  EXPECT_EQ(closed.standard_error.find("--wait"), std::string::npos) << closed.standard_error;
  const auto shared = run({"lease", "--share", "--", "sh", "-c", gw + " run -q -- true; exit $?"});
  EXPECT_EQ(shared.exit_code, 1);
  EXPECT_THAT(shared.standard_error, HasSubstr("--share uses it too"));
  EXPECT_EQ(run({"lease", "--share", "--", "sh", "-c", gw + " run -q --share -- true; exit $?"}).exit_code, 0);
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
}

TEST_F(LeaseCli, WhatWouldBeIgnoredIsRefused) {
  expect_error({"lease", "--hold", "--", "true"}, 2, "lease --hold starts no command: 'true' is unexpected");
  expect_error({"lease", "--list", "--", "true"}, 2, "lease --list starts no command");
  expect_error({"lease", "--list", "--hold"}, 2, "--list and --hold cannot be used together");
  expect_error({"lease", "--json", "--", "true"}, 2, "lease without --list prints no JSON");
  expect_error({"run", "--end-leftovers", "x", "--", "true"}, 2, "run --end-leftovers starts no command: 'true'");
  expect_error({"run", "--json", "--", "true"}, 2, "--report - prints its report as JSON");
  expect_error({"run", "--end-leftovers", "some-run", "--", "touch", "x"}, 2, "'touch' is unexpected");
}

TEST_F(LeaseCli, WhatIsWrongWithTheInheritedVariableIsSaidAlsoWhereNothingIsFound) {
  environment_["GPUWARDEN_SIMULATE"] = "h100x8";
  environment_["CUDA_VISIBLE_DEVICES"] = "2,9,3";
  environment_["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", "-n", "2", "--", "true"},
                                                {"lease", "-n", "2", "--", "true"},
                                                {"select", "-n", "2"}}) {
    const auto refused = run(words);
    EXPECT_EQ(refused.exit_code, 1) << words[0];
    EXPECT_THAT(refused.standard_error, HasSubstr("warning: CUDA_VISIBLE_DEVICES=2,9,3: '9' is not valid")) << words[0];
  }
  EXPECT_THAT(run({"run", "--gpu-ids", "3", "--", "true"}).standard_error, HasSubstr("'9'"));
}

TEST_F(LeaseCli, RemovingTheLeaseDirectoryGivesTheGpuToNobody) {
  const pid_t holder = hold();
  std::filesystem::remove_all(dir_ / "leases");
  const auto refused = run({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, 1) << refused.standard_error;
  EXPECT_THAT(refused.standard_error, HasSubstr(fmt::format("(pid {}", holder)));
  ::kill(holder, SIGTERM);
  EXPECT_EQ(code_of(holder), 0);
  EXPECT_EQ(run({"run", "-q", "--", "true"}).exit_code, 0);
}

TEST_F(LeaseCli, MigInstancesHaveFilesOfTheirOwn) {
  environment_["GPUWARDEN_SIMULATE"] = "a100-40x8-mig";
  const auto leased = run({"lease", "--mig-profile", "1g.5gb", "--", "true"});
  EXPECT_EQ(leased.exit_code, 0) << leased.standard_error;
  EXPECT_EQ(leased.standard_error.find("alone"), std::string::npos) << leased.standard_error;
}

TEST_F(LeaseCli, ASignalEndsTheWait) {
  const pid_t holder = hold();
  const pid_t waiter = start({"run", "--wait", "--", "true"}, "waiter");
  EXPECT_TRUE(eventually(kSoon, [&] { return somebody_waits(); }));
  ::kill(waiter, SIGTERM);
  EXPECT_EQ(code_of(waiter), 128 + SIGTERM);
  EXPECT_THAT(said("waiter"), HasSubstr("interrupted while waiting for GPUs"));
  for (const int signal : {SIGHUP, SIGINT}) {
    // What started the tests may ignore them (nohup, a shell's background).
    const pid_t another =
        start({"lease", "--wait", "--", "true"}, "another", [signal] { std::signal(signal, SIG_DFL); });
    EXPECT_TRUE(eventually(kSoon, [&] { return somebody_waits(); }));
    ::kill(another, signal);
    EXPECT_EQ(code_of(another), 128 + signal) << said("another");
  }
  EXPECT_THAT(run({"run", "--wait=50ms", "--", "true"}).standard_error, HasSubstr("timed out after"));
  ::kill(holder, SIGTERM);
  EXPECT_EQ(code_of(holder), 0);
}

TEST_F(LeaseCli, ASignalThatWasIgnoredAtTheStartDoesNotEndTheWait) {
  const pid_t holder = hold();
  const pid_t waiter = start({"lease", "--wait", "--", "true"}, "waiter", [] { std::signal(SIGHUP, SIG_IGN); });
  EXPECT_TRUE(eventually(kSoon, [&] { return somebody_waits(); }));
  ::kill(waiter, SIGHUP);
  EXPECT_TRUE(somebody_waits());
  ::kill(holder, SIGTERM);
  EXPECT_EQ(code_of(holder), 0);
  EXPECT_EQ(code_of(waiter), 0) << said("waiter");
}

TEST_F(LeaseCli, WhereTheHolderIsNotVisibleThatIsSaidAndNothingGuessed) {
  const pid_t holder = hold();
  const auto elsewhere = [&](const std::string& words) {
    return run_patiently({.argv = {"unshare", "-pf", "--mount-proc", "sh", "-c", GPUWARDEN_PROGRAM " " + words},
                          .environment = environment_})
        .value_or(Completed{});
  };
  const auto listed = elsewhere("list");
  const auto leases = elsewhere("lease --list");
  ::kill(holder, SIGTERM);
  EXPECT_EQ(code_of(holder), 0);
  if (listed.standard_error.contains("unshare")) GTEST_SKIP() << listed.standard_error;
  EXPECT_THAT(listed.standard_output, AllOf(HasSubstr(" leased"), HasSubstr("held; the holder is not visible here")));
  EXPECT_FALSE(listed.standard_output.contains("?")) << listed.standard_output;
  EXPECT_THAT(leases.standard_output, HasSubstr("held; the holder is not visible here"));
}

TEST_F(LeaseCli, AGateHeldForEverFreezesNobody) {
  const pid_t holder = hold();
  const UniqueFd gate(::open((dir_ / "leases/sim-gate.lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(gate.get(), LOCK_EX), 0);
  const auto listed = run({"list"});
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_THAT(listed.standard_output, HasSubstr(fmt::format("pid {}", holder)));
  const auto refused = run({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.standard_error, AllOf(HasSubstr("timed out after 5"), HasSubstr(fmt::format("{}", ::getpid()))));
  ASSERT_EQ(::flock(gate.get(), LOCK_UN), 0);
  ::kill(holder, SIGTERM);
  EXPECT_EQ(code_of(holder), 0);
}

}  // namespace
}  // namespace gpuwarden::testing
