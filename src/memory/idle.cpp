// SPDX-License-Identifier: Apache-2.0
// Memory that nobody has needed for a while: how much that is, and giving it back in small slices, the longest unused
// first. No lane is locked during a call of the upstream.
#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

/// Pages that one slice gives back at most: what the slow lock is held for.
constexpr std::uint32_t kSlice = 32;
/// Notes that are kept for each lane, and for the pool.
constexpr std::size_t kMostNotes = 128;
/// Pages that hold live data need this part more than live bytes: replays of training steps need up to 2.4 %
/// (docs/benchmarks.md), which would otherwise be given back and taken again.
constexpr std::uint64_t kMargin = 32;

/// Whole idle pages of a region, the longest unused first.
std::vector<IdlePages> oldest_idle(const Region& region, std::uint32_t pages, std::uint32_t done) {
  auto runs = region.idle_pages(~std::uint32_t{0}, done);
  std::ranges::sort(runs, {}, [&](const IdlePages& run) { return region[run.block].epoch; });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].size / kPageGrains < pages) {
      pages -= runs[i].size / kPageGrains;
      continue;
    }
    const auto first = runs[i].start / kPageGrains;
    const IdlePages part = region.whole_pieces(first, first + runs[i].size / kPageGrains, pages);
    runs[i].size = part.size;
    runs.resize(i + (part.size == 0 ? 0 : 1));
  }
  return runs;
}

/// The most that was live in a lane since the last note, in grains; at least.
std::uint64_t crest_since_note(Lane& lane) {
  lane.catch_up();
  LaneCounters& counters = lane.counters;
  const std::uint64_t ended = std::exchange(counters.ended_crest, 0);
  const std::uint64_t crest = std::max(ended, counters.crest);
  if (ended == 0 && lane.is_noted_crest()) {
    // The next note sees only what comes after this one.
    counters.peak_live = std::max(counters.peak_live, counters.crest);
    counters.crest = counters.trough = lane.live();
  }
  lane.noted_crest = counters.crest;
  lane.noted_cycle = lane.cycle;
  return crest;
}

}  // namespace

void DemandNotes::add(Clock::SteadyTime time, Bytes peak, std::chrono::nanoseconds span) {
  if (notes_.empty()) since_ = time;
  // Notes that lie closer together than anybody could tell become one.
  if (notes_.size() >= 2 && time - notes_[notes_.size() - 2].time < span / kMostNotes) {
    notes_.back() = {time, std::max(notes_.back().peak, peak)};
  } else {
    notes_.push_back({time, peak});
  }
  const auto recent = std::ranges::find_if(notes_, [&](const Note& note) { return note.time >= time - span; });
  if (recent == notes_.begin()) return;
  since_ = std::prev(recent)->time;
  notes_.erase(notes_.begin(), recent);
}

std::optional<Bytes> DemandNotes::most_since(Clock::SteadyTime time) const {
  if (notes_.empty() || since_ > time) return std::nullopt;
  Bytes most;
  for (const Note& note : notes_) {
    if (note.time > time) most = std::max(most, note.peak);
  }
  return most;
}

void EpochNotes::add(Clock::SteadyTime time, std::uint32_t epoch) {
  if (notes_.size() == kMostNotes) {
    for (std::size_t i = 0; i < kMostNotes / 2; ++i) notes_[i] = notes_[2 * i + 1];
    notes_.resize(kMostNotes / 2);
  }
  notes_.push_back({time, epoch});
}

std::uint32_t EpochNotes::before(Clock::SteadyTime time) const {
  std::uint32_t epoch = 0;
  for (const Note& note : notes_) {
    if (note.time <= time) epoch = note.epoch;
  }
  return epoch;
}

void EpochNotes::rebase(std::uint32_t done) {
  std::erase_if(notes_, [&](const Note& note) { return note.epoch <= done; });
  for (Note& note : notes_) note.epoch -= done;
}

void Pool::Core::note_demand(Clock::SteadyTime now, std::chrono::nanoseconds span) {
  std::uint64_t peak = 0;
  for_each_lane([&](Lane& lane) {
    const LaneGuard lock(lane);
    peak += crest_since_note(lane);
    const LaneCounters& counters = lane.counters;
    const std::uint64_t operations = counters.allocations + counters.frees;
    lane.quiet_notes = lane.noted == operations ? lane.quiet_notes + 1 : 0;
    lane.noted = operations;
    // A quiet stream's quick lists serve nobody, and would hide how long their blocks have been idle.
    if (lane.quiet_notes != 0 && !lane.is_private) lane.flush();
    // What is given back from now on belongs to a later epoch, and is younger than this note.
    if (const std::uint32_t ended = end_epoch(lane); ended != 0) lane.notes.add(now, ended);
  });
  demand_.add(now, bytes(peak), span);
}

Bytes Pool::Core::idle_since(Clock::SteadyTime time) {
  const std::lock_guard slow(slow_);
  Bytes idle;
  for_each_lane([&](Lane& lane) {
    const std::uint32_t epoch = lane.notes.before(time);
    const LaneGuard lock(lane);
    if (epoch == 0 || lane.is_private) return;
    for (const Region& region : lane.regions) {
      for (const IdlePages& run : region.idle_pages(~std::uint32_t{0}, epoch)) idle += bytes(run.size);
    }
  });
  return idle;
}

Result<Bytes> Pool::Core::trim_idle(Clock::SteadyTime now, std::chrono::nanoseconds idle_for, Bytes keep,
                                    const std::stop_token& stop) {
  std::uint64_t target = ~std::uint64_t{0};
  {
    const std::lock_guard slow(slow_);
    if (pages_.lost) return fail(ErrorCode::unavailable, "the device's context is gone");
    if (epochs_are_late_) rebase_epochs();
    note_demand(now, idle_for);
    if (const auto needed = demand_.most_since(now - idle_for)) target = needed->value + needed->value / kMargin;
    if (soft_limit_) target = std::min(target, soft_limit_->value);
    target = std::max(target, keep.value);
  }
  Bytes returned;
  while (!stop.stop_requested()) {
    const std::lock_guard slow(slow_);
    const std::uint64_t kept = target / kPage.value + (target % kPage.value == 0 ? 0 : 1);
    if (pages_.lost || pages_.pages() <= kept) break;
    const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(pages_.pages() - kept, kSlice));
    const std::uint64_t before = pages_.pages();
    if (pages_.spare() < wanted) free_oldest(wanted);
    destroy_spare(wanted);
    // A piece may be larger than a slice, but takes nothing along that is to be kept.
    if (pages_.pages() == before) destroy_spare(pages_.pages() - kept);
    if (pages_.pages() == before) break;
    returned += kPage * (before - pages_.pages());
  }
  return returned;
}

void Pool::Core::free_oldest(std::uint64_t wanted_spare) {
  if (captures_underway_ != 0) return;
  std::vector<Lane*> lanes;
  for_each_lane([&](Lane& lane) {
    if (!lane.is_private) lanes.push_back(&lane);
  });
  std::ranges::stable_sort(lanes, std::greater{}, &Lane::quiet_notes);
  for (const bool flush : {false, true}) {
    for (Lane* const lane : lanes) {
      if (pages_.spare() >= wanted_spare) return;
      if (flush) {
        const LaneGuard lock(*lane);
        if (lane->quiet_notes != 0) lane->leave_script();
        lane->flush();
        for (unsigned region = 0; region < kRegions; ++region) adopt_list(*lane, region, false);
      }
      refresh_done(*lane);
      unmap_oldest(*lane, wanted_spare);
    }
  }
}

void Pool::Core::unmap_oldest(Lane& lane, std::uint64_t wanted_spare) {
  for (unsigned number = 0; number < kRegions && pages_.spare() < wanted_spare; ++number) {
    Region& region = lane.regions[number];
    // Claimed under the lane's lock, so that nothing else touches them while the lock is open.
    std::vector<IdlePages> claimed;
    {
      const LaneGuard lock(lane);
      const auto wanted = static_cast<std::uint32_t>(wanted_spare - pages_.spare());
      for (IdlePages run : oldest_idle(region, wanted, lane.done)) {
        run.block = region.claim_idle(run);
        claimed.push_back(run);
      }
    }
    for (const IdlePages& run : claimed) {
      const bool unmapped = pages_.unmap(base_of(lane, number), region, run.start, run.size).has_value();
      const LaneGuard lock(lane);
      if (unmapped) {
        region.give_hole(run.block);
      } else {
        region.give(run.block, region[run.block].epoch);
      }
    }
  }
}

}  // namespace gpuwarden::memory
