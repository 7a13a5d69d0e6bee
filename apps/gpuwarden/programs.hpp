// SPDX-License-Identifier: Apache-2.0
// Foreign programs on the user's terminal.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::cli {

/// This process becomes the program, which is looked for on the PATH of its own environment. Comes back only where
/// that failed, which is told: 127 (there is no such program) or 126.
int exec_program(const std::vector<std::string>& argv, const Environment& environment);

/// Runs the program to its end; its exit code, 128 + the signal that ended it, or 127 / 126 as above. Ctrl-C ends the
/// program, not this process, which has to clean up behind it; SIGTERM and SIGHUP are passed on for the same reason.
/// `in_child` completes the environment in the process that becomes the program.
Result<int> run_program(const std::vector<std::string>& argv, const Environment& environment,
                        const std::function<void(Environment&)>& in_child = {});

}  // namespace gpuwarden::cli
