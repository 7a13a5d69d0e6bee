// SPDX-License-Identifier: Apache-2.0
// Texts of several machines: which lines are not the first one's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/lines.hpp"

namespace gpuwarden::capture {

/// Lines of a text by their numbers: from `begin` on, before `end`.
struct Stretch {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};
inline constexpr std::uint32_t kToTheEnd = 0xFFFFFFFF;

/// Without the stretches of other machines, whose software and answers would be taken for the first one's. A report of
/// the environment at line `report` (0: there is none) names its GPUs itself, and so whose it is.
std::vector<Line> without(std::vector<Line> lines, std::vector<Stretch> others, std::uint32_t report);

/// A second report of PyTorch's collect_env that is about other GPUs than the first; nothing where there is none.
std::optional<Stretch> second_report(const std::vector<Line>& lines);

}  // namespace gpuwarden::capture
