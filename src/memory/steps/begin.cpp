// SPDX-License-Identifier: Apache-2.0
// Where a lane that repeats itself gets a script: what it did in the last period is planned anew, as a whole, and the
// memory for it is put in one place. From then on nothing has to be searched, cut, merged or mapped.
#include <algorithm>
#include <array>
#include <new>

#include "memory/core.hpp"
#include "memory/steps/placement.hpp"

namespace gpuwarden::memory {
namespace {

/// What reserved memory may exceed the peak of live memory by for a plan that does not fit into what is reserved.
constexpr Allowance kMore{45, 16_MiB};

/// Pages that something lies on.
std::uint64_t held_pages(const Region& region) {
  std::uint64_t pages = 0;
  Grains counted = 0;  // pages up to here
  for (BlockNumber at = region.lowest(); at != kNoBlock; at = region[at].after) {
    const Block& block = region[at];
    if (block.state == BlockState::free || block.state == BlockState::hole) continue;
    const Grains from = std::max(counted, block.start / kPageGrains);
    const Grains to = (block.start + block.size - 1) / kPageGrains + 1;
    if (to <= from) continue;
    pages += to - from;
    counted = to;
  }
  return pages;
}

std::uint64_t mapped_pages(const Region& region) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(region.handles(), [](PageHandle handle) { return handle.value != 0; }));
}

/// Half of the operations at least must be planned, or following the script is not worth it.
bool is_worth_it(const Script& script) { return 4 * std::uint64_t{script.planned} >= script.period(); }

/// Whether it is about a good part of what is ever live, as a whole step is.
bool is_large(const Script& script, std::uint64_t peak) { return bytes(8 * std::uint64_t{script.crest}).value >= peak; }

}  // namespace

void Pool::Core::begin_script(Lane& lane) {
  const std::lock_guard slow(slow_);
  const std::lock_guard lock(lane.lock);
  // Somebody may have been quicker.
  if (lane.follows() || !lane.finder.is_at_cut(lane.tape)) return;
  bool begun = false;
  try {
    begun = !pages_.lost && captures_underway_ == 0 && try_script(lane);
  } catch (const std::bad_alloc&) {
    // Without host memory nothing is learned; what was asked for may be given out all the same.
    begun = false;
  }
  if (!begun) lane.finder.put_off(lane.tape);
}

bool Pool::Core::try_script(Lane& lane) {
  lane.flush();
  // What was given back on other streams would lie between the places. The second time it is waited for.
  adopt_foreign(lane, lane.finder.failures() != 0);
  std::vector<PlannedBlock> blocks;
  Script script(lane.tape, lane.finder.period(), blocks);
  if (!is_worth_it(script)) return false;
  std::uint64_t room = pages_.spare();
  for (const Region& region : lane.regions) room += mapped_pages(region) - held_pages(region);
  room -= std::min<std::uint64_t>(room, (script.ordinary + kPageGrains - 1) / kPageGrains);
  // So many pages more than there are.
  const auto growth = [&](const Allowance& by) {
    const std::uint64_t most = std::min((peak_live_ + by.above(peak_live_)) / kPage.value + 1, soft_pages());
    return most - std::min(most, pages_.pages());
  };
  const auto grains_of = [](std::uint64_t pages) {
    return static_cast<Grains>(std::min<std::uint64_t>(pages, kMostPlanned) * kPageGrains);
  };
  PlacementBudget budget;
  // Nothing is moved or created for a small part of the memory, and not too much the first time.
  const bool large = is_large(script, peak_live_);
  const bool again = lane.finder.failures() != 0;
  const bool placed = place_by_time(blocks, grains_of(room), budget) ||
                      (large && place_by_time(blocks, grains_of(room + growth(kBesideScript)), budget)) ||
                      (large && place_by_size(blocks, grains_of(room), budget)) ||
                      (large && again && place_by_time(blocks, grains_of(room + growth(kMore)), budget));
  if (!placed) return false;
  Grains size = 0;
  for (const PlannedBlock& block : blocks) size = std::max(size, block.start + block.size);
  size = (size + kPageGrains - 1) / kPageGrains * kPageGrains;
  const std::uint64_t wanted = size / kPageGrains;
  lane.learned.strays.reserve(LearnedStep::kMostStrays);
  BlockNumber arena = find_arena(lane, size);
  if (arena == kNoBlock && large) arena = map_arena(lane, size, pages_.pages() + wanted - std::min(wanted, room));
  if (arena == kNoBlock) return false;
  const std::uint64_t base = base_of(lane, 0).value;
  script.place(blocks, base + (std::uint64_t{lane.regions[0][arena].start} << kGrainShift));
  lane.script = std::move(script);
  lane.follow(0, arena, base);
  ++scripts_;
  return true;
}

BlockNumber Pool::Core::find_arena(Lane& lane, Grains size) const {
  Region& region = lane.regions[0];
  const BlockNumber found = region.take_anywhere(size, strategy_);
  if (found == kNoBlock || region[found].size == size) return found;
  return region.shrink(found, size, 1);
}

BlockNumber Pool::Core::map_arena(Lane& lane, Grains size, std::uint64_t most_pages) {
  Region& region = lane.regions[0];
  const Window window = region.cheapest_window(size, true);
  if (window.first == kNoBlock) return kNoBlock;
  // What this stream still works on cannot be moved. That, too, is waited for the second time.
  if (lane.finder.failures() != 0) block_until_done(lane);
  if (pages_.lost) return kNoBlock;
  Attempt attempt{.lane = lane,
                  .bytes = bytes(size),
                  .size = size,
                  .alignment = 1,
                  .region = 0,
                  .slow_lock = {},
                  .lane_lock = {},
                  .found = {},
                  .last = {}};
  const std::array sources{PageSources{.idle = true, .created = true, .thorough = true, .most_pages = most_pages},
                           PageSources{.created = true, .thorough = true, .most_pages = most_pages}};
  const BlockNumber arena = back_claimed(attempt, lane, window, sources);
  if (arena == kNoBlock) return kNoBlock;
  lane.fit_quick_room(pages_.reserved().value >> kGrainShift);
  if (!pages_.lost) return arena;
  region.give(arena, lane.epoch.load(std::memory_order_relaxed));
  return kNoBlock;
}

void Pool::Core::leave_others(const Lane& own) {
  for_each_lane([&](Lane& lane) {
    if (&lane == &own || !lane.follows()) return;
    const std::lock_guard lock(lane.lock);
    lane.leave_script();
  });
}

}  // namespace gpuwarden::memory
