// SPDX-License-Identifier: Apache-2.0
// What scripts do today: look for known pieces of text, name what is found first. The floor that a diagnosis has to
// beat.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gpuwarden::bench {

/// Which of several matches is the answer.
enum class NaiveStrategy {
  first_line,  ///< the first line on which anything matches
  last_line,   ///< the last one
  priority,    ///< the first row of the table that matches anywhere
};

std::size_t naive_pattern_count();

/// Case does not count. Of several matches on a line the first row of the table wins; "none" where nothing matches.
std::string_view naive_diagnosis(std::string_view text, NaiveStrategy strategy);

}  // namespace gpuwarden::bench
