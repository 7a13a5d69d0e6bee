// SPDX-License-Identifier: Apache-2.0
// What the table of variables is made of.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "gpuwarden/telemetry/variables.hpp"

namespace gpuwarden::telemetry {

/// Another name that people type.
struct Alias {
  std::string_view alias;
  std::string_view name;
};
/// The usual alias of a name comes first.
std::span<const Alias> alias_table();

/// Thresholds, identity, users and events; metrics come from their own tables.
std::vector<Variable> gpu_variables();
std::vector<Variable> user_variables();

/// The words that `throttle` groups reasons by.
struct ThrottleGroup {
  std::string_view word;
  std::vector<std::string_view> reasons;
};
const std::vector<ThrottleGroup>& throttle_groups();

}  // namespace gpuwarden::telemetry
