// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end with a deadline and a cap on its output.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;

/// What to run; `environment` empty means "inherit".
struct Command {
  std::vector<std::string> argv;
  std::optional<Environment> environment;
  std::string standard_input;
  std::chrono::milliseconds deadline = std::chrono::seconds(10);
  std::size_t output_cap = std::size_t{16} << 20U;
  /// Nothing of it is to stay: it is killed when the calling thread dies, and what it left in its group when it ends.
  bool dies_with_caller = false;
};

/// How it ended. Exactly one of exit_code and signal is set unless it had to be killed at the deadline.
struct Completed {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;
  bool truncated = false;
  std::string standard_output;
  std::string standard_error;
};

/// Runs argv[0] (looked up in PATH) in a process group of its own. At the deadline the group is killed and timed_out
/// set; output beyond the cap is read and dropped (truncated). Fails with not_found / permission_denied when the
/// program cannot be started.
Result<Completed> run_command(const Command& command);

/// The files that a program's name may mean, in the order in which an exec tries them: the folders of PATH (an empty
/// one is the current folder), or, where there is no PATH, those that glibc's execvp() takes (confstr(_CS_PATH):
/// /bin:/usr/bin). A name with a '/' is itself; an empty one is none.
std::vector<std::string> program_files(const std::string& program, const Environment& environment);

/// The calling process's environment; only apps/ and tests call this.
Environment current_environment();

}  // namespace gpuwarden
