// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

constexpr auto kSeverities = std::to_array<std::string_view>({"ok", "info", "warning", "error", "critical"});
constexpr auto kAreas = std::to_array<std::string_view>(
    {"driver", "device", "toolkit", "frameworks", "libraries", "containers", "multi_gpu", "system", "cluster"});
constexpr auto kStatuses =
    std::to_array<std::string_view>({"not_judged", "optimal", "compatible", "needs_update", "incompatible"});

template <class E, std::size_t N>
std::optional<E> named(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Severity severity) { return kSeverities.at(std::to_underlying(severity)); }
std::optional<Severity> severity_from(std::string_view name) { return named<Severity>(kSeverities, name); }
std::string_view to_string(Area area) { return kAreas.at(std::to_underlying(area)); }
std::optional<Area> area_from(std::string_view name) { return named<Area>(kAreas, name); }
std::string_view to_string(Status status) { return kStatuses.at(std::to_underlying(status)); }

}  // namespace gpuwarden::doctor
