// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "sim/core/fleet_spec.hpp"

namespace gpuwarden::sim {
namespace {

constexpr std::pair<std::string_view, std::string_view> kPresets[] = {
#include "sim/presets.inc"
};

}  // namespace

std::optional<std::string_view> preset(std::string_view name) {
  for (const auto& [known, text] : kPresets) {
    if (known == name) return text;
  }
  return std::nullopt;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kPresets) names.emplace_back(name);
  return names;
}

}  // namespace gpuwarden::sim
