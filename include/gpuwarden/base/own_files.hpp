// SPDX-License-Identifier: Apache-2.0
// What is installed with the running program.
#pragma once

#include <filesystem>

namespace gpuwarden {

/// ../lib/gpuwarden/NAME beside the running program, in a build tree as where it is installed; whether there is such a
/// file is not looked at.
std::filesystem::path own_file(const std::filesystem::path& name);

}  // namespace gpuwarden
