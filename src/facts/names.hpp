// SPDX-License-Identifier: Apache-2.0
// Enumerators and their names, both ways, from one table.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace gpuwarden::facts {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

template <class Enum, std::size_t N>
constexpr std::string_view name_of(const Names<Enum, N>& names, Enum value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "?";
}

template <class Enum, std::size_t N>
constexpr std::optional<Enum> named(const Names<Enum, N>& names, std::string_view wanted) {
  for (const auto& [known, name] : names) {
    if (name == wanted) return known;
  }
  return std::nullopt;
}

}  // namespace gpuwarden::facts
