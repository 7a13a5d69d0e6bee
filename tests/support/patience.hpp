// SPDX-License-Identifier: Apache-2.0
// How long tests wait. These times end what hangs and measure nothing: a machine that does much else at once must not
// reach them.
#pragma once

#include <chrono>
#include <functional>

#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::testing {

/// For a program that ends by itself: less than the five minutes after which ctest ends the test.
inline constexpr std::chrono::minutes kProgramDeadline(4);

/// For what happens at once on an idle machine: less than the minute that programs of tests sleep to be killed.
inline constexpr std::chrono::seconds kSoon(50);

/// Looks every few milliseconds until `done` or the time is over; whether it was done.
bool eventually(std::chrono::milliseconds time, const std::function<bool()>& done);

/// run_command() for a program that ends by itself; `deadline` is not heeded.
inline Result<Completed> run_patiently(Command command) {
  command.deadline = kProgramDeadline;
  return run_command(command);
}

}  // namespace gpuwarden::testing
