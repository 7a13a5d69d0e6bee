// SPDX-License-Identifier: Apache-2.0
// Where a run gets no GPUs, --report says so too: whoever started it on another machine reads it there.
#pragma once

#include "gpuwarden/placement/select.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

/// Writes the error, the exit code and the GPUs in trouble among those that the run could have had; nothing without
/// --report. What cannot be written is told.
void write_refusal(const Context& context, const Machine& machine, const placement::Decision& refused,
                   const Error& error, int exit_code);

}  // namespace gpuwarden::cli
