// SPDX-License-Identifier: Apache-2.0
// A plan's name of an option, as our own command line or another program's has it.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden::planning {

/// "tensor-parallel" of "--tensor-parallel", "--tp" and "-tp": what was typed, with its dashes; empty: it has none.
std::string plan_name_of(std::string_view typed);

/// Whether a plan's option of this name has a value ("compile" has none).
bool has_value(std::string_view plan_name);

/// Whether the next word is a value of what was typed, an option of ours or of another program that is read past.
bool value_follows(std::string_view typed);

}  // namespace gpuwarden::planning
