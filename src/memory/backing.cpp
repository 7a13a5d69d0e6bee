// SPDX-License-Identifier: Apache-2.0
// Puts physical pages where a request wants to stand: spare ones, idle ones from elsewhere, new ones.
#include <algorithm>
#include <new>
#include <utility>

#include "gpuwarden/base/scope_guard.hpp"
#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

/// Pages of the largest piece, or the part of the pool that it is in a large one: in pieces of 64 MiB each MiB costs
/// about 3 us of a driver's work (sim/cuda/clock.cpp), in larger ones 2 at least.
constexpr std::uint64_t kPiece = 32;
constexpr std::uint64_t kPieceShare = 64;
/// The part of a region that it grows by ahead of requests: in pages, and in pieces, of which one more costs as much.
constexpr std::size_t kAhead = 512;
constexpr std::size_t kAheadInPieces = 256;

}  // namespace

bool Pool::Core::back_window(Attempt& attempt, const PageSources& sources, Lane& host) {
  bool widen = true;
  if (fill_window(attempt, sources, host, widen)) return true;
  // What was wanted beyond the request may be what the device no longer has.
  if (!widen) return false;
  widen = false;
  return fill_window(attempt, sources, host, widen);
}

bool Pool::Core::fill_window(Attempt& attempt, const PageSources& sources, Lane& host, bool& widen) {
  // Every window lacks a page: without one to spare or to create there is no need to look.
  const bool may_widen = std::exchange(widen, false);
  if (pages_.spare() == 0 && !sources.idle && pages_.pages() >= sources.most_pages) return false;
  Region& region = host.regions[attempt.region];
  Window window = region.cheapest_window(attempt.size + attempt.alignment - 1, sources.thorough);
  if (window.first == kNoBlock) return false;
  const std::uint64_t spare = pages_.spare();
  const std::uint64_t room = sources.most_pages - std::min(pages_.pages(), sources.most_pages);
  if (!sources.idle && window.missing > spare && window.missing - spare > room) return false;
  // A large region grows by a little more than is asked for: fewer calls of the driver.
  const std::uint32_t ahead = pages_ahead(region);
  if (may_widen && !sources.idle && window.missing > spare && room - (window.missing - spare) >= ahead)
    widen = region.widen(window, ahead);
  BlockNumber taken = back_claimed(attempt, host, window, std::span(&sources, 1));
  if (taken == kNoBlock) return false;
  if (window.size > attempt.size) taken = region.shrink(taken, attempt.size, attempt.alignment);
  attempt.lane.fit_quick_room(pages_.reserved().value >> kGrainShift);
  return accept(attempt, host, taken);
}

BlockNumber Pool::Core::back_claimed(Attempt& attempt, Lane& host, const Window& window,
                                     std::span<const PageSources> sources) {
  Region& region = host.regions[attempt.region];
  const Grains end = window.start + window.size;
  const BlockNumber first = region.claim(window);
  Filling filling;
  // Also where the host has no memory left for the way there.
  ScopeGuard give_back([&] {
    region.unclaim(first, end);
    for (const FilledHole& hole : filling.holes) pages_.put_back(hole.pieces);
    destroy_spare(filling.created);
  });
  for (BlockNumber at = first; at != kNoBlock && region[at].start < end; at = region[at].after) {
    if (region[at].state != BlockState::claimed_hole) continue;
    filling.holes.push_back({.block = at, .missing = region[at].size / kPageGrains, .pieces = {}});
  }
  bool gathered = gather(attempt, filling, sources.front());
  for (const PageSources& next : sources.subspan(1))
    gathered = gathered || (!pages_.lost && gather(attempt, filling, next));
  if (!gathered || !map_claimed(attempt, host, filling)) return kNoBlock;
  give_back.release();
  return region.settle(first, window);
}

bool Pool::Core::fill(Filling& filling) {
  for (FilledHole& hole : filling.holes) {
    if (hole.missing == 0) continue;
    const std::vector<PageHandle> more = pages_.take(hole.missing);
    try {
      hole.pieces.insert(hole.pieces.end(), more.begin(), more.end());
    } catch (const std::bad_alloc&) {
      pages_.put_back(more);
      throw;
    }
    hole.missing -= static_cast<std::uint32_t>(pages_in(more));
  }
  return filling.missing() == 0;
}

bool Pool::Core::gather(Attempt& attempt, Filling& filling, const PageSources& sources) {
  if (fill(filling)) return true;
  if (sources.idle) {
    gather_idle(attempt, static_cast<std::uint32_t>(pages_.spare()) + filling.missing(), filling.largest_missing());
    if (fill(filling)) return true;
    const bool broken = break_pieces(attempt, filling.missing());
    // Without anything idle this would be growth, which has its own rung.
    if (!broken && std::ranges::all_of(filling.holes, [](const FilledHole& hole) { return hole.pieces.empty(); }))
      return false;
  }
  if (!sources.created) return false;
  const std::uint32_t missing = filling.missing();
  if (pages_.pages() + missing > sources.most_pages) return false;
  const auto result = create_missing(filling, most_in_piece());
  if (!result) attempt.last = result.error();
  return result.has_value();
}

Result<void> Pool::Core::create_missing(Filling& filling, std::uint32_t most) {
  std::vector<PageHandle> made;
  for (FilledHole& hole : filling.holes) {
    // Alike in size, so that no small one is left over.
    const std::uint32_t count = (hole.missing + most - 1) / most;
    for (std::uint32_t i = 0; i < count; ++i) made.push_back({.pages = (hole.missing + i) / count});
    hole.pieces.reserve(hole.pieces.size() + count);
  }
  GPUWARDEN_CHECK(pages_.create(made));
  auto next = made.begin();
  for (FilledHole& hole : filling.holes) {
    for (; hole.missing != 0; ++next) {
      hole.pieces.push_back(*next);
      hole.missing -= next->pages;
      filling.created += next->pages;
    }
  }
  return {};
}

bool Pool::Core::break_pieces(Attempt& attempt, std::uint32_t pages) {
  if (!strategy_.in_pieces) return false;
  gather_idle(attempt, pages, kAnySize);
  if (pages_.spare() == 0 || !pages_.destroy_whole(pages)) return false;
  pages_moved_ += pages;
  return true;
}

std::uint32_t Pool::Core::most_in_piece() const {
  if (!strategy_.in_pieces) return 1;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(kPiece, pages_.pages() / kPieceShare));
}

std::uint32_t Pool::Core::pages_ahead(const Region& region) const {
  return static_cast<std::uint32_t>(region.handles().size() / (strategy_.in_pieces ? kAheadInPieces : kAhead));
}

void Pool::Core::gather_idle(Attempt& attempt, std::uint32_t pages, std::uint32_t largest) {
  refresh_done(attempt.lane);
  unmap_idle(attempt.lane, pages, largest);
  if (pages_.spare() >= pages) return;
  for_each_other(attempt, [&](Lane& other) {
    refresh_done(other);
    const std::uint64_t before = pages_.spare();
    unmap_idle(other, pages, largest);
    other.lent += pages_.spare() - before;
    return pages_.spare() >= pages;
  });
}

bool Pool::Core::grow_for_lent(Attempt& attempt) {
  Lane& lane = attempt.lane;
  const std::uint64_t peak = std::max(lane.peak_live() + attempt.size, lane.noted_peak);
  lane_peaks_ += peak - std::exchange(lane.noted_peak, peak);
  // What happens seldom is forgotten.
  const std::uint64_t passed = lane.counters.allocations - std::exchange(lane.lent_at, lane.counters.allocations);
  pages_missed_ -= std::min(pages_missed_, passed / kBearable);
  const std::uint64_t allowed = std::exchange(pages_missed_, pages_missed_ + std::exchange(lane.lent, 0));
  if (allowed == 0 || !strategy_.remap_above_permille) return false;
  const std::uint64_t before = pages_.pages();
  const std::uint64_t most = (lane_peaks_ + lane_peaks_ / kPeaksMargin) / kPageGrains;
  if (!back_window(attempt, {.created = true, .most_pages = std::min({before + allowed, most, soft_pages()})}))
    return false;
  pages_missed_ -= std::min(pages_missed_, pages_.pages() - before);
  return true;
}

bool Pool::Core::has_idle_pages() const {
  if (pages_.spare() != 0 || lane_count_ > 1) return true;
  return std::ranges::any_of(lanes_[0]->regions, &Region::may_have_idle_pages);
}

void Pool::Core::unmap_idle(Lane& lane, std::uint64_t wanted_spare, std::uint32_t largest) {
  if (captures_underway_ != 0 || lane.is_private) return;
  for (unsigned number = 0; number < kRegions && pages_.spare() < wanted_spare; ++number) {
    Region& region = lane.regions[number];
    const auto wanted = static_cast<std::uint32_t>(wanted_spare - pages_.spare());
    for (const IdlePages& run : region.idle_pages(wanted, lane.done, largest)) {
      if (!pages_.unmap(base_of(lane, number), region, run.start, run.size)) return;
      region.close(run);
      pages_moved_ += run.size / kPageGrains;
    }
  }
}

bool Pool::Core::map_claimed(Attempt& attempt, Lane& host, Filling& filling) {
  Region& region = host.regions[attempt.region];
  const DeviceAddress base = base_of(host, attempt.region);
  for (std::size_t i = 0; i < filling.holes.size(); ++i) {
    FilledHole& hole = filling.holes[i];
    if (const auto result = pages_.map(base, region, region[hole.block].start, hole.pieces); !result) {
      attempt.last = result.error();
      for (std::size_t undone = 0; undone < i; ++undone) {
        Block& block = region[filling.holes[undone].block];
        if (pages_.unmap(base, region, block.start, block.size)) block.state = BlockState::claimed_hole;
      }
      return false;
    }
    region[hole.block].state = BlockState::claimed;
    hole.pieces.clear();
  }
  return true;
}

void Pool::Core::destroy_spare(std::uint64_t count) {
  static_cast<void>(pages_.destroy(std::min<std::uint64_t>(count, pages_.spare())));
}

Result<Bytes> Pool::Core::trim(Bytes keep) {
  const std::lock_guard slow(slow_);
  return trim_to(keep);
}

Bytes Pool::Core::trim_to(Bytes keep) {
  const std::uint64_t before = pages_.pages();
  const std::uint64_t kept = (keep.value + kPage.value - 1) / kPage.value;
  shrink_to(kept, false);
  return kPage * (before - pages_.pages());
}

void Pool::Core::shrink_to(std::uint64_t kept, bool beyond) {
  if (pages_.pages() <= kept) return;
  const std::uint64_t surplus = pages_.pages() - kept;
  for_each_lane([&](Lane& lane) {
    const LaneGuard lock(lane);
    if (pages_.spare() >= surplus || lane.is_private) return;
    lane.leave_script();
    lane.flush();
    adopt_foreign(lane, false);
    refresh_done(lane);
    unmap_idle(lane, surplus);
  });
  destroy_spare(surplus);
  if (beyond && pages_.pages() > kept) pages_.destroy_whole(static_cast<std::uint32_t>(pages_.pages() - kept));
}

void Pool::Core::give_up_pages(Lane& lane) {
  for (unsigned number = 0; number < kRegions; ++number) {
    Region& region = lane.regions[number];
    const auto& handles = region.handles();
    for (std::size_t page = 0; page < handles.size(); ++page) {
      std::size_t end = page;
      while (end < handles.size() && handles[end].value != 0) ++end;
      if (end == page) continue;
      const auto start = static_cast<Grains>(page) * kPageGrains;
      const auto size = static_cast<Grains>(end - page) * kPageGrains;
      if (!pages_.unmap(base_of(lane, number), region, start, size))
        static_cast<void>(pages_.unmap(base_of(lane, number), region, start, size));
      page = end;
    }
  }
}

Pool::Core::~Core() {
  // A forked child and a process whose context is gone have nothing to give back.
  if (is_forked() || pages_.lost) return;
  // Graphs must not be replayed any more.
  captures_underway_ = 0;
  for_each_lane([](Lane& lane) { lane.is_private = lane.is_capturing = false; });
  // A call that failed once is tried again: nobody will do it later.
  bool done = true;
  for_each_lane([&](Lane& lane) { done = (block_until_done(lane) || block_until_done(lane)) && done; });
  for_each_lane([&](Lane& lane) {
    // Where a stream may still work its pages stay with the driver, which frees them with the context; and as it may
    // work on what it took from others, theirs do, too.
    if (done) give_up_pages(lane);
    if (lane.event.value != 0 && !pages_.lost && !pages_.called(upstream_.forget(lane.event)) && !pages_.lost)
      static_cast<void>(pages_.called(upstream_.forget(lane.event)));
  });
  for (int tries = 0; tries < 2 && pages_.spare() > 0; ++tries) destroy_spare(pages_.spare());
  const auto release = [&](DeviceAddress base, Bytes size) {
    for (int tries = 0; tries < 2 && done && !pages_.lost; ++tries) {
      if (pages_.called(upstream_.release(base, size))) return;
    }
  };
  release(base_, wide_reservation(region_shift_));
  if (narrow_base_.value != 0) release(narrow_base_, narrow_reservation(region_shift_));
}

}  // namespace gpuwarden::memory
