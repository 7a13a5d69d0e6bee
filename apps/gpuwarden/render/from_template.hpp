// SPDX-License-Identifier: Apache-2.0
// Files of apps/gpuwarden/templates, compiled in.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuwarden::cli {

/// The template of this file name with values for its marks: `@COMMANDS@` for COMMANDS. Lines (each with its end) take
/// the place of the whole line that their mark has for itself.
std::string from_template(std::string_view name, const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace gpuwarden::cli
