// SPDX-License-Identifier: Apache-2.0
// What a page of a recording brings along, the same in each: its style and its script.
#pragma once

#include <string_view>

namespace gpuwarden::recording {

extern const std::string_view kPageStyle;
/// Shows values at a cursor that all charts share, and hides lines; without it the page shows the same charts.
extern const std::string_view kPageScript;

}  // namespace gpuwarden::recording
