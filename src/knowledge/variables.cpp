// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/variables.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace gpuwarden::knowledge {

namespace {

constexpr auto kVariables = std::to_array<KnownVariable>({
#include "knowledge/variables.inc"
});

bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::span<const KnownVariable> known_variables() { return kVariables; }

const KnownVariable* find_known_variable(std::string_view name) {
  const auto* const found = std::ranges::find_if(kVariables, [&](const auto& one) { return same(one.name, name); });
  return found == kVariables.end() ? nullptr : found;
}

}  // namespace gpuwarden::knowledge
