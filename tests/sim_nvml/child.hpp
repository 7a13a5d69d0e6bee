// SPDX-License-Identifier: Apache-2.0
// Another process of a test.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <optional>

namespace gpuwarden::nvml {

/// Forks; the child runs `work` and leaves with its result, without any clearing up. Killed when this ends.
class Child {
 public:
  explicit Child(const std::function<int()>& work) {
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) ::_exit(work());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill();
    wait();
  }

  pid_t pid() const { return pid_; }
  void kill() const {
    if (!status_) ::kill(pid_, SIGKILL);
  }
  /// The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, 0) == pid_) {
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return status_.value_or(-1);
  }
  /// Whether it is still running after a while.
  bool still_runs_after(std::chrono::milliseconds a_while) const {
    std::this_thread::sleep_for(a_while);
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

}  // namespace gpuwarden::nvml
