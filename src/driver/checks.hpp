// SPDX-License-Identifier: Apache-2.0
// The questions that are asked before a driver is changed.
#pragma once

#include <vector>

#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

std::vector<PreCheck> pre_checks(const DriverFacts& facts, const DriverRequest& request, const Recommendation& target);
/// Whether the request overrules the check.
bool is_forced(const PreCheck& check, const DriverRequest& request);

}  // namespace gpuwarden::driver
