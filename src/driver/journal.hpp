// SPDX-License-Identifier: Apache-2.0
// The journal of driver runs: one JSON line for each change of state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/driver/run.hpp"

namespace gpuwarden::driver {

std::string begin_line(const Plan& plan, const std::string& at);
std::string step_line(const std::string& run, const std::string& at, const std::string& step, StepState state,
                      const std::string& message);
std::string state_line(const std::string& run, const std::string& at, RunState state, const std::string& boot_id,
                       const std::string& message);
/// Puts what a line says into the runs. Fails with corrupt.
Result<void> take_line(std::string_view line, std::vector<DriverRun>& runs);
/// How many bytes of the journal are whole lines that can be read; what follows was cut off while it was written.
std::size_t whole_part(std::string_view journal);

}  // namespace gpuwarden::driver
