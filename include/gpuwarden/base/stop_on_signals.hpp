// SPDX-License-Identifier: Apache-2.0
// SIGINT, SIGTERM and SIGHUP as a stop token, for programs that wait through the library.
#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden {

/// While it lives these signals request a stop; what was ignored when the program started stays ignored (nohup). The
/// signals are as before at its end, for the program and for those it starts.
class StopOnSignals {
 public:
  StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;
  ~StopOnSignals();
  std::stop_token token() const { return source_.get_token(); }

 private:
  void watch();

  sigset_t before_{};
  UniqueFd signals_;
  UniqueFd end_;
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace gpuwarden
