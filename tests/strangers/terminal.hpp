// SPDX-License-Identifier: Apache-2.0
// A program on a terminal of its own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "strangers/screen.hpp"

namespace gpuwarden::testing {

class Terminal {
 public:
  static constexpr unsigned kRows = 60;
  static constexpr unsigned kColumns = 160;

  Terminal(const std::vector<std::string>& argv, const Environment& environment);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  /// Kills the program if it is still there.
  ~Terminal();

  /// Reads the program's output until the screen shows what is wanted; false when the time is over or it ended.
  bool shows(const std::function<bool(const Screen&)>& wanted, std::chrono::milliseconds time);
  void type(std::string_view keys);
  /// The program's exit code once it has ended, -1 when it does not within the time.
  int exit_code(std::chrono::milliseconds time);
  const Screen& screen() const { return screen_; }

 private:
  bool read_some(int timeout_ms);

  UniqueFd master_;
  pid_t pid_ = -1;
  Screen screen_{kRows, kColumns};
};

}  // namespace gpuwarden::testing
