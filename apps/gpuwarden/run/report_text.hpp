// SPDX-License-Identifier: Apache-2.0
// How a run went, for people.
#pragma once

#include <string>

#include "gpuwarden/healing/run.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// What the GPUs did and what was wasted.
std::string run_report_text(const launch::RunReport& report);

/// A try that failed: its cause with lines and steps, and whether another one follows. `alone`: the only try there was
/// to be, which needs no number.
std::string attempt_text(const healing::Attempt& attempt, bool alone, const Style& style);
/// Why the try that was announced does not follow.
std::string no_restart_text(const healing::Attempt& attempt);

}  // namespace gpuwarden::cli
