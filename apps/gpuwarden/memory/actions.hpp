// SPDX-License-Identifier: Apache-2.0
// What gpuwarden memory does, by its first operand.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

/// memory replay TRACE: a recorded trace through the pool. Gives the exit code.
Result<int> memory_replay(Context& context);

}  // namespace gpuwarden::cli
