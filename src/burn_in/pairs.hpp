// SPDX-License-Identifier: Apache-2.0
// How fast bytes move from one GPU to another.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "burn_in/cuda_driver.hpp"
#include "gpuwarden/burn_in/burn_in.hpp"

namespace gpuwarden::burn_in {

/// Copies from each of these devices to each other one, directly where the driver gives them access to one another.
/// Tells what begins and what was found (child.hpp has the messages). A pair that fails says so and the next one is
/// tried; fails as a whole where a device has no context or no memory.
Result<void> copy_between(const cuda::Functions& cuda, const std::vector<int>& ordinals, const Options& options,
                          const std::function<void(const nlohmann::json&)>& tell);

}  // namespace gpuwarden::burn_in
