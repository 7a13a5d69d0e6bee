// SPDX-License-Identifier: Apache-2.0
// A command that is told of an alert.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::telemetry {

/// Runs argv with `input` on its standard input and nobody listening to its output, and waits for its end. Fails with
/// the first line of what it wrote to stderr where its exit code is not 0; with timed_out or interrupted where it was
/// killed, and all that it started in its process group with it.
Result<void> run_sink_command(const std::vector<std::string>& argv, const std::string& input,
                              std::chrono::milliseconds time, const std::stop_token& stop);

}  // namespace gpuwarden::telemetry
