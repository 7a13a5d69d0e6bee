// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory.
#pragma once

#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda::server {

/// Frees a block of a pool in the order of a stream, or, without one, when all of its context's work is over.
Result free_to_pool(Driver& driver, const Range& block, StreamState* stream, ContextState* owner);

}  // namespace gpuwarden::cuda::server
