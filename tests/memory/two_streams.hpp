// SPDX-License-Identifier: Apache-2.0
// The names that most tests of the pool use: two streams, and an address as the pointer that it is on a host.
#pragma once

#include "gpuwarden/memory/types.hpp"

namespace gpuwarden::memory {

inline constexpr StreamId kStream{1};
inline constexpr StreamId kOther{2};

inline void* pointer(DeviceAddress address) {
  return reinterpret_cast<void*>(address.value);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace gpuwarden::memory
