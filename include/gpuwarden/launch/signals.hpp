// SPDX-License-Identifier: Apache-2.0
// The signals of a launcher while its job runs.
#pragma once

#include <csignal>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::launch {

/// Reads a launcher's signals from a descriptor instead of being interrupted by them; those that were ignored stay
/// ignored. Restores the thread's mask at its end. A write into a pipe without reader is an error of that write and no
/// signal.
class SignalScope {
 public:
  /// Without `take` nothing but the last sentence holds.
  explicit SignalScope(bool take);
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  ~SignalScope();

  int fd() const { return fd_.get(); }  ///< -1: no signals are taken
  /// Whether it means what the program makes of it, as Slurm's --signal=USR1@60 does, and is no wish to end the job.
  static bool is_programs_own(int signal) { return signal == SIGUSR1 || signal == SIGUSR2; }
  /// What the process ignored when the scope began.
  const sigset_t& ignored() const { return ignored_; }
  /// Stops this process as Ctrl-Z stops any; comes back when somebody has continued it.
  static void stop_self();

 private:
  sigset_t taken_{};
  sigset_t ignored_{};
  sigset_t before_{};
  UniqueFd fd_;
};

}  // namespace gpuwarden::launch
