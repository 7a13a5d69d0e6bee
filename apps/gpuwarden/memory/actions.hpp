// SPDX-License-Identifier: Apache-2.0
// What gpuwarden memory does, by its first operand.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

/// memory: who holds how much of each GPU, once or again and again. Gives the exit code.
Result<int> memory_status(Context& context);

/// memory trace -- COMMAND: runs it and notes what it allocates. Gives the command's exit code.
Result<int> memory_trace(Context& context);

/// memory replay TRACE: a recorded trace through the pool. Gives the exit code.
Result<int> memory_replay(Context& context);

}  // namespace gpuwarden::cli
