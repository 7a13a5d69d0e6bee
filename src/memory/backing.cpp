// SPDX-License-Identifier: Apache-2.0
// Puts physical pages where a request wants to stand: spare ones, idle ones from elsewhere, new ones.
#include <algorithm>
#include <utility>

#include "gpuwarden/base/scope_guard.hpp"
#include "memory/core.hpp"

namespace gpuwarden::memory {
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
  if (may_widen && !sources.idle && window.missing > spare && room - (window.missing - spare) >= region.chunk_pages())
    widen = region.widen(window);
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
  std::uint32_t created = 0;
  // Also where the host has no memory left for the way there.
  ScopeGuard give_back([&] {
    region.unclaim(first, end);
    destroy_spare(created);
  });
  bool gathered = gather(attempt, window.missing, sources.front(), created);
  for (const PageSources& next : sources.subspan(1))
    gathered = gathered || (!pages_.lost && gather(attempt, window.missing, next, created));
  if (!gathered || !map_claimed(attempt, host, first, end)) return kNoBlock;
  give_back.release();
  return region.settle(first, window);
}

bool Pool::Core::gather(Attempt& attempt, std::uint32_t pages, const PageSources& sources, std::uint32_t& created) {
  if (pages_.spare() >= pages) return true;
  if (sources.idle) {
    gather_idle(attempt, pages);
    // Without anything idle this would be growth, which has its own rung.
    if (pages_.spare() == 0) return false;
  }
  if (pages_.spare() >= pages) return true;
  if (!sources.created) return false;
  const auto missing = static_cast<std::uint32_t>(pages - pages_.spare());
  if (pages_.pages() + missing > sources.most_pages) return false;
  if (const auto result = pages_.create(missing); !result) {
    attempt.last = result.error();
    return false;
  }
  created = missing;
  return true;
}

void Pool::Core::gather_idle(Attempt& attempt, std::uint32_t pages) {
  refresh_done(attempt.lane);
  unmap_idle(attempt.lane, pages);
  if (pages_.spare() >= pages) return;
  for_each_other(attempt, [&](Lane& other) {
    refresh_done(other);
    const std::uint64_t before = pages_.spare();
    unmap_idle(other, pages);
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

void Pool::Core::unmap_idle(Lane& lane, std::uint64_t wanted_spare) {
  if (captures_underway_ != 0 || lane.is_private) return;
  for (unsigned number = 0; number < kRegions && pages_.spare() < wanted_spare; ++number) {
    Region& region = lane.regions[number];
    const auto wanted = static_cast<std::uint32_t>(wanted_spare - pages_.spare());
    for (const IdlePages& run : region.idle_pages(wanted, lane.done)) {
      if (!pages_.unmap(base_of(lane, number), region, run.start, run.size)) return;
      region.close(run);
      pages_moved_ += run.size / kPageGrains;
    }
  }
}

bool Pool::Core::map_claimed(Attempt& attempt, Lane& host, BlockNumber first, Grains end) {
  Region& region = host.regions[attempt.region];
  const DeviceAddress base = base_of(host, attempt.region);
  std::vector<BlockNumber> mapped;
  for (BlockNumber at = first; at != kNoBlock && region[at].start < end; at = region[at].after) {
    if (region[at].state != BlockState::claimed_hole) continue;
    if (const auto result = pages_.map(base, region, region[at].start, region[at].size); !result) {
      attempt.last = result.error();
      for (const BlockNumber undone : mapped) {
        if (pages_.unmap(base, region, region[undone].start, region[undone].size))
          region[undone].state = BlockState::claimed_hole;
      }
      return false;
    }
    region[at].state = BlockState::claimed;
    mapped.push_back(at);
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
  shrink_to(kept);
  return kPage * (before - pages_.pages());
}

void Pool::Core::shrink_to(std::uint64_t kept) {
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
