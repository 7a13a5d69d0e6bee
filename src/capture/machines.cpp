// SPDX-License-Identifier: Apache-2.0
#include "capture/machines.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "capture/env_report.hpp"
#include "capture/merge.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {

std::vector<Line> without(std::vector<Line> lines, std::vector<Stretch> others, std::uint32_t report) {
  for (Stretch& other : others) {
    if (report > other.begin) other.end = std::min(other.end, report);
  }
  // Both are in the text's order.
  auto other = others.cbegin();
  const auto is_of_others = [&](const Line& line) {
    while (other != others.cend() && line.number >= other->end) ++other;
    return other != others.cend() && line.number >= other->begin;
  };
  std::vector<Line> own;
  for (Line& line : lines) {
    if (!is_of_others(line)) own.push_back(std::move(line));
  }
  return own;
}

std::optional<Stretch> second_report(const std::vector<Line>& lines) {
  // With this line a report begins.
  const auto begins = [](const Line& line) { return trim(line.text).starts_with("PyTorch version: "); };
  const auto first = std::ranges::find_if(lines, begins);
  if (first == lines.end()) return std::nullopt;
  const auto second = std::find_if(std::next(first), lines.end(), begins);
  if (second == lines.end()) return std::nullopt;
  std::vector<Line> before(lines.begin(), second);
  std::vector<Line> after(second, lines.end());
  const auto own = take_env_report(before);
  const auto other = take_env_report(after);
  if (!own || !other || !is_another_machine(snapshot_of_env_report(*own), snapshot_of_env_report(*other)))
    return std::nullopt;
  return Stretch{second->number, kToTheEnd};
}

}  // namespace gpuwarden::capture
