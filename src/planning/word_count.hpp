// SPDX-License-Identifier: Apache-2.0
// Numbers among the words.
#pragma once

#include <cstdint>
#include <string>

#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::planning {

/// Sets `value` to the whole number from 1 to `most` that the words give; leaves it alone where they give none. Fails
/// with invalid_argument, naming the word.
Result<void> read_word_count(const Words& words, const std::string& name, std::uint32_t most, std::uint32_t& value);

}  // namespace gpuwarden::planning
