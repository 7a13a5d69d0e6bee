// SPDX-License-Identifier: Apache-2.0
#include "telemetry/expression_units.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr double kKibi = 1024;

// A letter alone is a power of 1024, as parse_size() has it.
constexpr auto kUnits = std::to_array<UnitName>({
    {"%", "%"},
    {"w", "W"},
    {"mw", "W", 1e-3},
    {"kw", "W", 1e3},
    {"c", "°C"},
    {"°c", "°C"},
    {"mhz", "MHz"},
    {"ghz", "MHz", 1e3},
    {"khz", "MHz", 1e-3},
    {"j", "J"},
    {"kj", "J", 1e3},
    {"wh", "J", 3600},
    {"kwh", "J", 3.6e6},
    {"s", "s"},
    {"ms", "s", 1e-3},
    {"us", "s", 1e-6},
    {"min", "s", 60},
    {"h", "s", 3600},
    {"b", "B"},
    {"k", "B", kKibi},
    {"m", "B", kKibi* kKibi},
    {"g", "B", kKibi* kKibi* kKibi},
    {"t", "B", kKibi* kKibi* kKibi* kKibi},
    {"kib", "B", kKibi},
    {"mib", "B", kKibi* kKibi},
    {"gib", "B", kKibi* kKibi* kKibi},
    {"tib", "B", kKibi* kKibi* kKibi* kKibi},
    {"kb", "B", 1e3},
    {"mb", "B", 1e6},
    {"gb", "B", 1e9},
    {"tb", "B", 1e12},
    {"b/s", "B/s"},
    {"kb/s", "B/s", 1e3},
    {"mb/s", "B/s", 1e6},
    {"gb/s", "B/s", 1e9},
    {"tb/s", "B/s", 1e12},
    {"kib/s", "B/s", kKibi},
    {"mib/s", "B/s", kKibi* kKibi},
    {"gib/s", "B/s", kKibi* kKibi* kKibi},
});

constexpr auto kExamples = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"%", "50%"},
    {"W", "300W"},
    {"°C", "85C"},
    {"MHz", "1500MHz"},
    {"J", "20kJ"},
    {"s", "30s"},
    {"B", "20GiB"},
    {"B/s", "10GB/s"},
});

}  // namespace

const UnitName* find_unit(std::string_view name) {
  const auto* const found = std::ranges::find(kUnits, to_lower(name), &UnitName::name);
  return found == kUnits.end() ? nullptr : found;
}

std::string_view example_of_unit(std::string_view unit) {
  const auto* const found = std::ranges::find(kExamples, unit, &decltype(kExamples)::value_type::first);
  return found == kExamples.end() ? "5" : found->second;
}

}  // namespace gpuwarden::telemetry
