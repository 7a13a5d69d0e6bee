// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpuwarden/memory.h"
#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden {

/// A pool's status as C programs see it.
inline gpuwarden_pool_status status_for_c(const memory::PoolStatus& status, const memory::DeviceMemory& device) {
  return {.size = sizeof(gpuwarden_pool_status),
          .reserved = status.reserved.value,
          .peak_reserved = status.peak_reserved.value,
          .live = status.live.value,
          .peak_live = status.peak_live.value,
          .cached = status.cached.value,
          .largest_free = status.largest_free.value,
          .limit = status.limit.value,
          .live_blocks = status.live_blocks,
          .allocations = status.allocations,
          .frees = status.frees,
          .driver_calls = status.upstream_calls,
          .out_of_memory = status.out_of_memory,
          .device_total = device.total.value,
          .device_free = device.free.value};
}

}  // namespace gpuwarden
