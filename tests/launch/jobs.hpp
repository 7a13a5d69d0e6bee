// SPDX-License-Identifier: Apache-2.0
// Jobs of small shell programs, with a folder of their own.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/launch/job.hpp"
#include "launch/parts.hpp"
#include "launch/process.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;

/// A job that runs in a process of its own: its launcher and its guardians, outer first.
struct Team {
  pid_t launcher = 0;
  std::vector<pid_t> guardians;
};

class Jobs : public ::testing::Test {
 protected:
  JobSpec shell(const std::string& script, std::uint32_t ranks = 1) const {
    JobSpec spec;
    spec.argv = {"/bin/sh", "-c", script};
    spec.ranks = ranks;
    spec.environment = current_environment();
    spec.environment["DIR"] = dir_.path().string();
    spec.visible_devices = "GPU-a,GPU-b";
    spec.run_id = make_run_id();
    spec.grace = 2s;
    return spec;
  }
  static void say(const std::string& warning) { ::dprintf(2, "%s\n", warning.c_str()); }
  std::string file(const std::string& name) const { return read_file(dir_ / name).value_or("(none)"); }

  /// Runs a job in a process of its own, as `gpuwarden run` would, and gives that process.
  static pid_t launch(const JobSpec& spec) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      JobSpec own = spec;
      own.takes_signals = true;
      const auto end = run_job(own, system_clock(), {.warning = say});
      ::_exit(end ? end->exit_code : 99);
    }
    return pid;
  }
  /// The same with its guardians, which are found as a person would find them: by name, below the launcher.
  static Team launch_team(const JobSpec& spec) {
    Team team{launch(spec), {}};
    EXPECT_TRUE(soon([&] {
      team.guardians = guardians_below(team.launcher);
      return team.guardians.size() == 2;
    }));
    return team;
  }
  static std::vector<pid_t> guardians_below(pid_t launcher) {
    std::vector<pid_t> found;
    for (const Process& process : descendants(launcher)) {
      if (read_line("/proc/" + std::to_string(process.pid()) + "/comm") == "gpuwarden-guard")
        found.push_back(process.pid());
    }
    return found;
  }
  static bool runs(pid_t pid) {
    const auto stat = process_stat(pid);
    return stat && stat->state != 'Z';
  }
  bool all_up(std::uint32_t ranks) const {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (file("up." + std::to_string(rank)).empty() || file("up." + std::to_string(rank)) == "(none)") return false;
    }
    return true;
  }
  /// What a rank wrote into up.N: its process.
  pid_t rank_pid(int rank) const { return static_cast<pid_t>(std::atoi(file("up." + std::to_string(rank)).c_str())); }
  static int wait_for(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  static bool soon(const std::function<bool()>& done) { return eventually(kSoon, done); }
  TempDir dir_;
};

}  // namespace gpuwarden::launch
