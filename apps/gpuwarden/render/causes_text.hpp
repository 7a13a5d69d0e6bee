// SPDX-License-Identifier: Apache-2.0
// What is known about causes of failure, whatever happened: diagnose --list and --explain.
#pragma once

#include <string>

#include "gpuwarden/logs/explain.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// Every cause, by area.
std::string causes_text();

/// What the question is, its first cause at length, and the other causes that it may mean; at length, too, with `all`.
std::string explanation_text(const logs::Explanation& explanation, bool all, const Style& style);

}  // namespace gpuwarden::cli
