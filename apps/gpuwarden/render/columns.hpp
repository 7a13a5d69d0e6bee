// SPDX-License-Identifier: Apache-2.0
// Plain columns, as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

#include "render/style.hpp"

namespace gpuwarden::cli {

/// The rows with two blanks between columns, each line behind `indent` blanks; the first row is a heading. Cells are
/// made safe to print.
std::string columns(const std::vector<std::vector<std::string>>& rows, const Style& style, std::size_t indent = 2);

}  // namespace gpuwarden::cli
