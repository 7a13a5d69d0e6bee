// SPDX-License-Identifier: Apache-2.0
// SIGINT, SIGTERM and SIGHUP as a stop token, for programs that wait through the library.
#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden {

/// While it lives these signals request a stop; what was ignored when the program started stays ignored (nohup). The
/// signals are as before at its end, for the program and for those it starts. It blocks them in the calling thread and
/// in those started later: made after other threads, these still get the signals, and the program ends. Where the
/// system has no descriptor or thread left for it, the signals act as they did before, and nothing requests a stop.
class StopOnSignals {
 public:
  StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;
  ~StopOnSignals();
  std::stop_token token() const { return source_.get_token(); }
  /// The signal that last requested a stop in this process, for an exit code; 0: none did.
  static int last_signal();

 private:
  void start();
  void watch();

  sigset_t before_{};
  UniqueFd signals_;
  UniqueFd end_;
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace gpuwarden
