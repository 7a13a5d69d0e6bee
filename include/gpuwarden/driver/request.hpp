// SPDX-License-Identifier: Apache-2.0
// What an administrator asks of the driver, in words.
#pragma once

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

/// Of "branch" (580, R580), "driver-version" (580.126.09), "packaging", "runfile", "module" (open, proprietary), "cuda"
/// (12.8), "for" (as doctor::read_purpose), "compute-only", "through-reboot" and "force". A .run file's name tells the
/// version where nothing else does. Fails with invalid_argument, naming the value.
Result<DriverRequest> read_request(const NamedValues& values, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::driver
