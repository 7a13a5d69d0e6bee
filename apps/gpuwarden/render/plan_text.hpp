// SPDX-License-Identifier: Apache-2.0
// A plan in words, bars and a table.
#pragma once

#include <string>

#include "gpuwarden/planning/json.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// The whole answer; with formulas and sources where `explained`.
std::string plan_text(const planning::PlanAnswer& answer, const planning::PlanOrigin& origin, const Style& style,
                      bool explained);

}  // namespace gpuwarden::cli
