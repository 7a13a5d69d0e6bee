// SPDX-License-Identifier: Apache-2.0
// The units that numbers in conditions may have.
#pragma once

#include <string_view>

namespace gpuwarden::telemetry {

/// A unit as people write it, in terms of that of the metric table.
struct UnitName {
  std::string_view name;  ///< in small letters
  std::string_view unit;  ///< as facts::Metric::unit
  double factor = 1;
};

/// By name, in small or large letters; nullptr for an unknown one.
const UnitName* find_unit(std::string_view name);
/// "20GiB" for "B": an example of a number in that unit.
std::string_view example_of_unit(std::string_view unit);

}  // namespace gpuwarden::telemetry
