// SPDX-License-Identifier: Apache-2.0
// What people type, in a terminal of their own: Ctrl-C, Ctrl-Z and fg, and a terminal that goes away.
#include <fcntl.h>
#include <pty.h>

#include "launch/jobs.hpp"

namespace gpuwarden::launch {
namespace {

class Terminal : public Jobs {
 protected:
  ~Terminal() override {
    if (shell_pid_ > 0) ::kill(shell_pid_, SIGKILL);
    if (shell_pid_ > 0) wait_for(shell_pid_);
  }

  /// A shell in a new terminal that runs the job in the foreground, and ends with its exit code.
  void start(const JobSpec& spec) {
    int master = -1;
    shell_pid_ = ::forkpty(&master, nullptr, nullptr, nullptr);
    if (shell_pid_ == 0) be_shell(spec);
    ASSERT_GT(shell_pid_, 0);
    master_.reset(master);
    ::fcntl(master, F_SETFL, O_NONBLOCK);
    ASSERT_TRUE(soon([&] { return all_up(spec.ranks); }));
  }
  /// No shell: the launcher is the first process of the session.
  void start_without_shell(const JobSpec& spec) {
    int master = -1;
    shell_pid_ = ::forkpty(&master, nullptr, nullptr, nullptr);
    if (shell_pid_ == 0) be_launcher(spec);
    ASSERT_GT(shell_pid_, 0);
    master_.reset(master);
    ASSERT_TRUE(soon([&] { return all_up(spec.ranks); }));
  }
  void type(char key) const { ASSERT_EQ(::write(master_.get(), &key, 1), 1); }
  int end() { return wait_for(std::exchange(shell_pid_, 0)); }
  bool is_stopped(int rank) const {
    const auto stat = process_stat(rank_pid(rank));
    return stat && stat->state == 'T';
  }

  UniqueFd master_;

 private:
  [[noreturn]] static void be_launcher(const JobSpec& spec) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    JobSpec own = spec;
    own.takes_signals = true;
    const auto end = run_job(own, system_clock());
    ::_exit(end ? end->exit_code : 99);
  }
  [[noreturn]] void be_shell(const JobSpec& spec) const {
    ::signal(SIGTTOU, SIG_IGN);
    const pid_t job = ::fork();
    if (job == 0) {
      ::setpgid(0, 0);
      ::tcsetpgrp(0, ::getpid());
      ::signal(SIGTTOU, SIG_DFL);
      be_launcher(spec);
    }
    for (;;) {
      int status = 0;
      if (::waitpid(job, &status, WUNTRACED) != job) continue;
      if (!WIFSTOPPED(status)) ::_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
      ::tcsetpgrp(0, ::getpid());
      put(dir_ / "stopped", std::to_string(WSTOPSIG(status)));
      while (!std::filesystem::exists(dir_ / "fg")) ::usleep(5000);
      ::tcsetpgrp(0, job);
      ::kill(-job, SIGCONT);
    }
  }

  pid_t shell_pid_ = 0;
};

// No shell that forks again and again: stopped between the two halves of a vfork it would not count as stopped.
constexpr const char* kRuns = "echo $$ > $DIR/up.$RANK; exec sleep 1000";
constexpr const char* kIgnores = "trap '' INT TERM HUP; echo $$ > $DIR/up.$RANK; while :; do sleep 0.05; done";
constexpr char kControlC = 3;
constexpr char kControlZ = 26;

TEST_F(Terminal, ControlZStopsTheRanksWithTheLauncherAndFgContinuesThem) {
  for (const std::uint32_t ranks : {2U, 1U}) {
    start(shell(kRuns, ranks));
    type(kControlZ);
    ASSERT_TRUE(soon([&] { return file("stopped") == std::to_string(SIGTSTP); })) << ranks;
    EXPECT_TRUE(soon([&] { return is_stopped(0) && (ranks == 1 || is_stopped(1)); })) << ranks;
    put(dir_ / "fg", "");
    EXPECT_TRUE(soon([&] { return !is_stopped(0) && (ranks == 1 || !is_stopped(1)); })) << ranks;
    type(kControlC);
    EXPECT_EQ(end(), 130) << ranks;
    for (const char* name : {"up.0", "up.1", "stopped", "fg"}) std::filesystem::remove(dir_ / name);
  }
}

TEST_F(Terminal, ControlCEndsTheJobAndASecondOneDoesNotWait) {
  JobSpec spec = shell(kIgnores, 2);
  spec.grace = kProgramDeadline;
  start(spec);
  type(kControlC);
  // Until both have been heard: one that comes while the first is pending is the same.
  EXPECT_TRUE(soon([&] {
    type(kControlC);
    return !runs(rank_pid(0)) && !runs(rank_pid(1));
  }));
  EXPECT_EQ(end(), 130);
}

TEST_F(Terminal, AJobEndsWithItsTerminal) {
  start_without_shell(shell(kRuns, 2));
  const pid_t rank = rank_pid(0);
  master_.reset();
  EXPECT_EQ(end(), 128 + SIGHUP);
  EXPECT_FALSE(runs(rank));
}

TEST_F(Terminal, WhatNohupStartedOutlivesItsTerminal) {
  ::signal(SIGHUP, SIG_IGN);
  JobSpec spec = shell("echo $$ > $DIR/up.$RANK; while [ ! -e $DIR/go ]; do sleep 0.02; done; kill -HUP $$; exit 7", 2);
  start_without_shell(spec);
  ::signal(SIGHUP, SIG_DFL);
  master_.reset();
  put(dir_ / "go", "");
  EXPECT_EQ(end(), 7) << "ranks ignore it as well";
}

}  // namespace
}  // namespace gpuwarden::launch
