// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gpuwarden {

/// This machine's name, as the kernel has it; empty where that cannot be told.
std::string own_host_name();

}  // namespace gpuwarden
