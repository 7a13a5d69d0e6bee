// SPDX-License-Identifier: Apache-2.0
// CUdevice_attribute, of a product and of what this simulation can do.
#pragma once

#include <optional>

#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda::server {

/// The attribute's value; nothing for a number that is no attribute. `view` may be null.
std::optional<int> attribute(int which, const DeviceState& device, const sim::FleetView* view);

}  // namespace gpuwarden::cuda::server
