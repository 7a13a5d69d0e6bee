// SPDX-License-Identifier: Apache-2.0
#include "memory/steps/placement.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

namespace gpuwarden::memory {
namespace {

/// A block's birth or death.
struct Event {
  std::uint32_t op = 0;
  std::uint32_t block = 0;
  bool birth = false;
};

std::vector<Event> events_of(std::span<const PlannedBlock> blocks) {
  std::vector<Event> events;
  events.reserve(2 * blocks.size());
  std::uint32_t last = 0;
  for (const PlannedBlock& block : blocks) last = std::max(last, block.gone);
  // No two events have the same operation: sorted by counting.
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> at(std::size_t{last} + 1, kNone);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    at[blocks[i].born] = 2 * i;
    at[blocks[i].gone] = 2 * i + 1;
  }
  for (std::uint32_t op = 0; op <= last; ++op) {
    if (at[op] != kNone) events.push_back({op, at[op] / 2, at[op] % 2 == 0});
  }
  return events;
}

struct Crest {
  Grains live = 0;
  std::uint32_t op = 0;
};

Crest crest_of(std::span<const PlannedBlock> blocks, std::span<const Event> events) {
  Crest crest;
  std::uint64_t live = 0;
  for (const Event& event : events) {
    const Grains size = blocks[event.block].size;
    live = event.birth ? live + size : live - size;
    if (live > crest.live) crest = {static_cast<Grains>(live), event.op};
  }
  return crest;
}

/// All births and deaths in time.
struct Lives {
  std::vector<Event> events;
  Crest crest;
};

enum class Side : std::uint8_t { lowest, low_best, highest, high_best };

/// Where a sweep puts what lives for more than `brief` operations, what is brief, and of the former what is not live at
/// the crest.
struct SweepRule {
  bool backwards = false;
  std::uint32_t brief = 0;
  Side lasting = Side::lowest;
  Side off_crest = Side::lowest;
  Side passing = Side::lowest;
};

// The order in which they fit the recorded steps of docs/benchmarks.md most often, with 1 to 5 % to spare.
constexpr std::array kRules{
    SweepRule{.backwards = true, .brief = 32, .passing = Side::high_best},
    SweepRule{.brief = 512, .off_crest = Side::highest, .passing = Side::high_best},
    SweepRule{.brief = 0, .off_crest = Side::highest, .passing = Side::highest},
    SweepRule{.backwards = true, .brief = 0, .off_crest = Side::highest, .passing = Side::highest},
    SweepRule{.backwards = true,
              .brief = 32,
              .lasting = Side::low_best,
              .off_crest = Side::low_best,
              .passing = Side::high_best},
    SweepRule{.brief = 512, .lasting = Side::low_best, .off_crest = Side::low_best, .passing = Side::high_best},
    SweepRule{.backwards = true, .brief = 0},
    SweepRule{.brief = 0},
};

/// Free room, gap by gap.
class Gaps {
 public:
  Gaps(Grains room, PlacementBudget& budget) : gaps_{{0, room}}, budget_(budget) {}

  /// Takes `size` grains on that side; false: no gap is large enough, or the search costs too much.
  bool take(Grains size, Side side, Grains& start) {
    const std::size_t at = find(size, side);
    if (at == gaps_.size()) return false;
    Gap& gap = gaps_[at];
    if (side == Side::highest || side == Side::high_best) {
      gap.end -= size;
      start = gap.end;
    } else {
      start = gap.start;
      gap.start += size;
    }
    if (gap.start == gap.end) gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  }

  void give(Grains start, Grains size) {
    const Grains end = start + size;
    const auto above = std::ranges::lower_bound(gaps_, start, {}, &Gap::start);
    const bool joins_above = above != gaps_.end() && above->start == end;
    const bool joins_below = above != gaps_.begin() && (above - 1)->end == start;
    if (joins_above && joins_below) {
      (above - 1)->end = above->end;
      gaps_.erase(above);
    } else if (joins_above) {
      above->start = start;
    } else if (joins_below) {
      (above - 1)->end = end;
    } else {
      gaps_.insert(above, {start, end});
    }
  }

 private:
  struct Gap {
    Grains start = 0;
    Grains end = 0;
    Grains size() const { return end - start; }
  };

  std::size_t find(Grains size, Side side) {
    const std::size_t none = gaps_.size();
    if (budget_.left < none) return none;
    budget_.left -= none;
    const auto fits = [size](const Gap& gap) { return gap.size() >= size; };
    if (side == Side::lowest) return static_cast<std::size_t>(std::ranges::find_if(gaps_, fits) - gaps_.begin());
    if (side == Side::highest) {
      for (std::size_t at = none; at-- > 0;)
        if (fits(gaps_[at])) return at;
      return none;
    }
    std::size_t best = none;
    Grains least = std::numeric_limits<Grains>::max();
    for (std::size_t at = 0; at < none; ++at) {
      const Grains had = gaps_[at].size();
      if (had < size || had > least || (had == least && side == Side::low_best)) continue;
      best = at;
      least = had;
    }
    return best;
  }

  std::vector<Gap> gaps_;
  PlacementBudget& budget_;
};

bool sweep(std::span<PlannedBlock> blocks, const Lives& lives, const SweepRule& rule, Grains room,
           PlacementBudget& budget) {
  Gaps gaps(room, budget);
  const auto side_of = [&](const PlannedBlock& block) {
    if (block.gone - block.born <= rule.brief) return rule.passing;
    return block.born <= lives.crest.op && lives.crest.op < block.gone ? rule.lasting : rule.off_crest;
  };
  for (std::size_t i = 0; i < lives.events.size(); ++i) {
    const Event& event = rule.backwards ? lives.events[lives.events.size() - 1 - i] : lives.events[i];
    PlannedBlock& block = blocks[event.block];
    if (event.birth == rule.backwards) {
      gaps.give(block.start, block.size);
    } else if (!gaps.take(block.size, side_of(block), block.start)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool place_by_time(std::span<PlannedBlock> blocks, Grains room, PlacementBudget& budget) {
  Lives lives{.events = events_of(blocks), .crest = {}};
  lives.crest = crest_of(blocks, lives.events);
  if (lives.crest.live > room) return false;
  return std::ranges::any_of(kRules, [&](const SweepRule& rule) { return sweep(blocks, lives, rule, room, budget); });
}

bool place_by_size(std::span<PlannedBlock> blocks, Grains room, PlacementBudget& budget) {
  const std::uint64_t cost = std::uint64_t{blocks.size()} * blocks.size() / 2;
  if (cost > budget.left) return false;
  budget.left -= cost;
  std::vector<std::uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return blocks[a].size > blocks[b].size; });
  std::vector<PlannedBlock> placed;  // by start
  placed.reserve(blocks.size());
  for (const std::uint32_t number : order) {
    PlannedBlock& block = blocks[number];
    Grains start = 0;
    for (const PlannedBlock& other : placed) {
      if (other.born >= block.gone || other.gone <= block.born) continue;
      if (other.start >= start && other.start - start >= block.size) break;
      start = std::max(start, other.start + other.size);
    }
    if (start > room || room - start < block.size) return false;
    block.start = start;
    placed.insert(std::ranges::upper_bound(placed, start, {}, &PlannedBlock::start), block);
  }
  return true;
}

}  // namespace gpuwarden::memory
