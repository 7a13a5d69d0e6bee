// SPDX-License-Identifier: Apache-2.0
// Which process a pid names: pids are reused, start times are not.
#pragma once

#include <cstdint>

namespace gpuwarden::sim {

/// The process's start in clock ticks since boot; 0 when there is no such process, or it is a zombie.
std::uint64_t process_start_time(std::int32_t pid);

}  // namespace gpuwarden::sim
