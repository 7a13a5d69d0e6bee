// SPDX-License-Identifier: Apache-2.0
// What outlived the launcher and the guardians of a run: said by commands that deal with GPUs, ended on request.
#pragma once

#include <string>

#include "command.hpp"

namespace gpuwarden::cli {

/// One warning for each run of which something is left, with the command that ends it. What is left in a control group
/// of the caller's own run is ended at once.
void show_leftovers(const Context& context, bool only_look = false);

/// `gpuwarden run --end-leftovers ID`.
Result<int> end_leftovers(const Context& context, const std::string& run_id);

}  // namespace gpuwarden::cli
