// SPDX-License-Identifier: Apache-2.0
// Foreign programs on the caller's own terminal.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::launch {

/// This process becomes the program, which is looked for on the PATH of `environment` (in /bin and /usr/bin where that
/// has none). Comes back only where that failed, with this process as it was: not_found, permission_denied where there
/// is such a file and it cannot be run, invalid_argument where `argv` is empty.
Error become_program(const std::vector<std::string>& argv, const Environment& environment);

/// Runs the program to its end; its exit code, or 128 + the signal that ended it. What a terminal sends both (Ctrl-C)
/// ends the program, not this process, which may have to clean up behind it; SIGTERM and SIGHUP are passed on for the
/// same reason. What was ignored before (nohup) stays ignored. For a program with one thread, one run at a time.
/// `pid_variable`: the name of a variable that is to hold the program's own pid; empty: none. Fails as
/// become_program() does.
Result<int> run_in_foreground(const std::vector<std::string>& argv, const Environment& environment,
                              const std::string& pid_variable = "");

}  // namespace gpuwarden::launch
