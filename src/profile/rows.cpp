// SPDX-License-Identifier: Apache-2.0
#include "profile/rows.hpp"

#include <algorithm>
#include <tuple>

namespace gpuwarden::profile {
namespace {

using Ends = std::vector<Clock::SteadyTime>;

Clock::SteadyTime end_of(const Event& event) {
  return event.start + std::chrono::duration_cast<Clock::SteadyTime::duration>(event.wall);
}

/// Puts an event on a row if it nests there; `open` are the ends of what is open on that row.
bool fits(Ends& open, const Event& event) {
  while (!open.empty() && open.back() <= event.start) open.pop_back();
  if (!open.empty() && end_of(event) > open.back()) return false;
  open.push_back(end_of(event));
  return true;
}

}  // namespace

std::vector<Placed> place_in_rows(std::span<const Event> events) {
  std::vector<Placed> result;
  result.reserve(events.size());
  for (const auto& event : events) result.push_back({.event = &event});
  std::ranges::stable_sort(result, {}, [](const Placed& placed) {
    return std::tuple(placed.event->thread, placed.event->start, -placed.event->wall, placed.event->depth);
  });
  std::vector<Ends> rows;
  std::int64_t thread = -1;
  for (auto& placed : result) {
    if (placed.event->thread != thread) rows.clear();
    thread = placed.event->thread;
    while (placed.row < rows.size() && !fits(rows[placed.row], *placed.event)) ++placed.row;
    if (placed.row == rows.size()) rows.push_back({end_of(*placed.event)});
  }
  return result;
}

}  // namespace gpuwarden::profile
