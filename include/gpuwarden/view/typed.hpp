// SPDX-License-Identifier: Apache-2.0
// What people type for a view. Pure.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::view {

/// Sorts processes by a column that is named as its title, without its percent sign, in any case; "-COLUMN" the largest
/// first. Fails with invalid_argument, naming all.
Result<void> set_sort(ViewState& state, std::string_view text);

/// "120x40": columns and lines, 1 to 1000 each. Fails with invalid_argument.
Result<Extent> parse_extent(std::string_view text);

}  // namespace gpuwarden::view
