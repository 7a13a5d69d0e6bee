// SPDX-License-Identifier: Apache-2.0
// What other programs call a value.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden::planning {

/// The word as the tables of workload_words.cpp have it.
std::string known_word(std::string_view option, std::string_view text);

}  // namespace gpuwarden::planning
