// SPDX-License-Identifier: Apache-2.0
// A plan's name of an option, as our own command line or another program's has it.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden::planning {

/// "tensor-parallel" of "--tensor-parallel", "--tp" and "-tp": what was typed, with its dashes; empty: it has none.
std::string plan_name_of(std::string_view typed);

}  // namespace gpuwarden::planning
