// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace gpuwarden {

/// How long the calling thread has worked so far: what others keep it from does not count. Only differences mean
/// something.
std::chrono::nanoseconds thread_time();

}  // namespace gpuwarden
