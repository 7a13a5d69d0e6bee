// SPDX-License-Identifier: Apache-2.0
// The distributions that plans are made for.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

/// Of a distribution by its ID in os-release; none where no plan is made for it.
PackageManager manager_of(std::string_view distribution);

/// The release's number: "10" of Kylin's "V10".
std::string release_of(const facts::Host& host);

/// A sentence where the distribution's release is none that is known; else empty.
std::string unknown_release(const facts::Host& host);

}  // namespace gpuwarden::driver
