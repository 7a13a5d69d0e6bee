// SPDX-License-Identifier: Apache-2.0
// What the tests of the tables ask, and the day on which they ask it.
#pragma once

#include <chrono>

#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::knowledge {

inline const Knowledge& known() { return Knowledge::built_in(); }
inline const std::chrono::system_clock::time_point kToday = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21);

}  // namespace gpuwarden::knowledge
