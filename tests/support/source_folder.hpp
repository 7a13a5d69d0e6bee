// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace gpuwarden::testing {

/// The root of the checkout that these programs were built from, however the compiler was told of its files.
std::filesystem::path source_folder();

}  // namespace gpuwarden::testing
