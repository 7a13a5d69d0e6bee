// SPDX-License-Identifier: Apache-2.0
// What the questions of these tests are answered with.
#pragma once

#include <chrono>

#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::compat {

/// The tables as they are shipped, without a user's own.
inline const knowledge::Knowledge& tables() { return knowledge::Knowledge::built_in(); }

/// When it is asked.
inline constexpr auto kToday = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21);

}  // namespace gpuwarden::compat
