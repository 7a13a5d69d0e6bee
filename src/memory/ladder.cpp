// SPDX-License-Identifier: Apache-2.0
// What is done when no free block fits: one rung after the other, each behind the slow lock and the lane's.
#include <algorithm>
#include <array>
#include <utility>

#include "memory/core.hpp"
#include "memory/ticks.hpp"

namespace gpuwarden::memory {

bool Pool::Core::applies(const RungRow& row, const Attempt& attempt) const {
  switch (row.needs) {
    case RungNeeds::nothing:
      return true;
    case RungNeeds::other_streams:
      return lane_count_.load(std::memory_order_relaxed) > 1;
    case RungNeeds::foreign_blocks:
      return std::ranges::any_of(attempt.lane.foreign, [](auto at) { return at != kNoBlock; });
  }
  return true;
}

bool Pool::Core::climb(Attempt& attempt) {
  peak_live_ = std::max(peak_live_, live_bytes() + (std::uint64_t{attempt.size} << kGrainShift));
  attempt.lane.judge();
  std::uint64_t start = ticks();
  static constexpr std::array<bool (Core::*)(Attempt&), kRungs> kRun{
#define GPUWARDEN_RUNG(name, needs) &Core::name,
      GPUWARDEN_POOL_RUNGS(GPUWARDEN_RUNG)
#undef GPUWARDEN_RUNG
  };
  for (const RungRow& row : kRungTable) {
    if (!applies(row, attempt)) continue;
    RungCount& count = rungs_[static_cast<std::size_t>(row.id)];
    ++count.tried;
    const bool found = (this->*kRun[static_cast<std::size_t>(row.id)])(attempt);
    // At least 1, so that a rung that was tried is told from one that was not.
    const std::uint64_t end = ticks();
    const std::uint64_t spent = std::max<std::uint64_t>(end - start, 1);
    attempt.spent[static_cast<std::size_t>(row.id)] = spent;
    count.nanoseconds += spent;  // ticks until status() tells them
    start = end;
    if (pages_.lost) {
      if (found) put_back(attempt);
      break;
    }
    if (found) {
      ++count.helped;
      return true;
    }
  }
  if (!pages_.lost) ++out_of_memory_;
  return false;
}

void Pool::Core::put_back(Attempt& attempt) {
  const Place found = std::exchange(attempt.found, {});
  std::unique_lock<BiasedLock> lock;
  if (found.lane != &attempt.lane) lock = std::unique_lock(found.lane->lock);
  found.lane->give_listed(found.region, found.block);
}

bool Pool::Core::accept(Attempt& attempt, Lane& lane, BlockNumber block) {
  if (block == kNoBlock) return false;
  // Read before the block's birth takes its place.
  attempt.epoch = lane.regions[attempt.region][block].epoch;
  lane.count_taken(lane.regions[attempt.region][block], attempt.bytes.value);
  lane.note_birth(lane.regions[attempt.region][block]);
  attempt.found = Place{&lane, attempt.region, block, {}};
  attempt.found.address = address_of(attempt.found);
  return true;
}

namespace {

BlockNumber take_from(Lane& lane, const Attempt& attempt) {
  Region& region = lane.regions[attempt.region];
  if (attempt.alignment > 1) return region.take_aligned(attempt.size, attempt.alignment, lane.strategy);
  return region.take_anywhere(attempt.size, lane.strategy);
}

}  // namespace

bool Pool::Core::search(Attempt& attempt) { return accept(attempt, attempt.lane, take_from(attempt.lane, attempt)); }

bool Pool::Core::steal(Attempt& attempt, bool wait) {
  // What a graph uses must be its own.
  if (attempt.lane.is_private) return false;
  for_each_other(attempt, [&](Lane& other) {
    const BlockNumber number = take_from(other, attempt);
    if (number == kNoBlock) return false;
    Region& region = other.regions[attempt.region];
    const std::uint32_t epoch = region[number].epoch;
    if (epoch > other.done && epoch > attempt.lane.waited[other.number] && !wait) refresh_done(other);
    const bool safe = epoch <= other.done || epoch <= attempt.lane.waited[other.number];
    if (safe || (wait && wait_for(attempt.lane, other, epoch))) {
      other.lent += (attempt.size + kPageGrains - 1) / kPageGrains;
      return accept(attempt, other, number);
    }
    region.give(number, epoch);
    return false;
  });
  return static_cast<bool>(attempt.found);
}

bool Pool::Core::search_all(Attempt& attempt) {
  return search(attempt) || steal(attempt, false) ||
         back_window(attempt, {.idle = true, .created = true, .thorough = true}) ||
         back_window(attempt, {.created = true, .thorough = true}) || grow_elsewhere(attempt, true);
}

bool Pool::Core::grow_to(Attempt& attempt, std::uint64_t above) {
  const std::uint64_t most = (peak_live_ + above) / kPage.value + 1;
  return back_window(attempt, {.created = true, .most_pages = std::min(most, soft_pages())});
}

bool Pool::Core::grow_near(Attempt& attempt) {
  if (!strategy_.remap_above_permille) return false;
  attempt.lane.note_miss(attempt.size);
  if (attempt.lane.wanders && attempt.lane.flush() && search(attempt)) return true;
  const std::uint64_t beside = attempt.lane.follows() ? kBesideScript.above(peak_live_) : 0;
  return grow_to(attempt, std::max(beside, usual_surplus(attempt.lane)));
}

namespace {

/// A piece moves whole or not at all: a little more memory is kept where it is made in pieces.
constexpr std::uint64_t kInPiecesPermille = 20;

}  // namespace

std::uint64_t Pool::Core::usual_surplus(const Lane& lane) const {
  std::uint64_t permille = *strategy_.remap_above_permille;
  if (strategy_.in_pieces) permille = std::max(permille, kInPiecesPermille);
  if (!lane.wanders) permille = std::max(permille, lane.shortage.permille());
  return peak_live_ / 1000 * permille;
}

std::uint64_t Pool::Core::kept_for_swings(const Lane& lane) const {
  // Steps that fill memory and empty it come to rest by themselves, or are worth their moves, of pages at least.
  return lane.steps_through_cycles() && !strategy_.in_pieces ? 0 : swings_.pages() * kPage.value;
}

bool Pool::Core::coalesce(Attempt& attempt) {
  // What a script holds may be all that is needed; what is in the script, though not planned, is worth more memory.
  if (attempt.lane.follows() && !attempt.lane.learned.expects_ordinary) {
    attempt.lane.leave_script();
    if (search(attempt)) return true;
  }
  const bool merged = attempt.lane.flush();
  const bool adopted = adopt_foreign(attempt.lane, false);
  if (!merged && !adopted) return false;
  if (search(attempt)) return true;
  if (!strategy_.remap_above_permille) return false;
  return grow_to(attempt, std::max(usual_surplus(attempt.lane), kept_for_swings(attempt.lane)));
}

bool Pool::Core::steal_done(Attempt& attempt) {
  if (grow_for_lent(attempt)) return true;
  // Memory is short: what scripts of others keep, and do not use now, is as good as free.
  leave_others(attempt.lane);
  // A page serves many small requests; a block of another stream's has to go back there each time.
  const bool small = attempt.size < kPageGrains && strategy_.remap_above_permille;
  return (small && back_window(attempt, {.idle = true, .most_pages = soft_pages()})) || steal(attempt, false);
}

namespace {

/// Once so many steps were alike: what is moved in one step would be moved in each.
constexpr unsigned kTimeToLearn = 8;  ///< steps, or parts of them
constexpr std::array kRepeating{Allowance{0, 0_MiB}, Allowance{12, 8_MiB}, Allowance{45, 16_MiB},
                                Allowance{100, 64_MiB}, Allowance{250, 128_MiB}};

/// A lane that learns its steps will soon need no growth: it is given time.
unsigned repeats_that_count(const Lane& lane) {
  const unsigned repeats = lane.misses.repeats();
  if (!lane.learns_steps) return repeats;
  return repeats > kTimeToLearn ? repeats - kTimeToLearn : std::min(repeats, 1U);
}

}  // namespace

bool Pool::Core::remap(Attempt& attempt) {
  if (!strategy_.remap_above_permille) return false;
  Lane& lane = attempt.lane;
  if (strategy_.learns) {
    const Allowance& repeating = kRepeating[std::min<std::size_t>(repeats_that_count(lane), kRepeating.size() - 1)];
    const std::uint64_t above = repeating.above(peak_live_);
    if (above != 0 && grow_to(attempt, above)) return true;
  }
  if (const std::uint64_t kept = kept_for_swings(lane); kept != 0 && grow_to(attempt, kept)) return true;
  const std::uint64_t before = pages_moved_;
  const bool found =
      has_idle_pages() && back_window(attempt, {.idle = true, .created = true, .most_pages = soft_pages()});
  if (strategy_.learns) swings_.moved(pages_moved_ - before, lane.counters.allocations, peak_live_ / kPage.value);
  if (strategy_.learns && (pages_moved_ != before || !lane.sizes_come_back()))
    lane.shortage.happened(lane.counters.allocations, lane.sizes_come_back());
  return found;
}

bool Pool::Core::wait_foreign(Attempt& attempt) { return adopt_foreign(attempt.lane, true) && search(attempt); }

bool Pool::Core::grow_elsewhere(Attempt& attempt, bool idle) {
  if (attempt.lane.number < kWideLanes || attempt.lane.is_private) return false;
  // Before the host's lock is taken: idle pages are looked for behind everybody's.
  if (idle) gather_idle(attempt, attempt.size / kPageGrains + 2, attempt.size / kPageGrains + 2);
  for (unsigned number = 0; number < kWideLanes; ++number) {
    Lane& host = *lanes_[number];
    if (host.is_private) continue;
    const std::lock_guard lock(host.lock);
    const std::uint64_t most = idle ? ~std::uint64_t{0} : soft_pages();
    if (!back_window(attempt, {.created = true, .thorough = idle, .most_pages = most}, host)) continue;
    const BlockNumber block = attempt.found.block;
    if (wait_for(attempt.lane, host, attempt.epoch)) return true;
    // Part of it was in use on the host's stream, and cannot be waited for.
    host.give_listed(attempt.region, block);
    attempt.found = {};
    return false;
  }
  return false;
}

bool Pool::Core::grow(Attempt& attempt) {
  if (back_window(attempt, {.created = true, .most_pages = soft_pages()})) return true;
  if (grow_elsewhere(attempt, false)) return true;
  if (!soft_limit_) return false;
  // Beyond the soft limit only after all that does not block.
  for_each_other(attempt, [&](Lane& other) {
    other.flush();
    adopt_foreign(other, false);
    return false;
  });
  return search(attempt) || steal(attempt, false) ||
         back_window(attempt, {.idle = true, .created = true, .most_pages = soft_pages()}) ||
         back_window(attempt, {.idle = true, .created = true}) || back_window(attempt, {.created = true});
}

bool Pool::Core::steal_wait(Attempt& attempt) { return steal(attempt, true); }

bool Pool::Core::flush_all(Attempt& attempt) {
  attempt.lane.leave_script();
  leave_others(attempt.lane);
  for_each_other(attempt, [&](Lane& other) {
    other.flush();
    adopt_foreign(other, false);
    return false;
  });
  return search_all(attempt);
}

bool Pool::Core::synchronize(Attempt& attempt) {
  for_each_lane([&](Lane& lane) { block_until_done(lane); });
  adopt_foreign(attempt.lane, false);
  for_each_other(attempt, [&](Lane& other) {
    adopt_foreign(other, false);
    return false;
  });
  return search_all(attempt);
}

bool Pool::Core::callbacks(Attempt& attempt) {
  for (const auto& give_back : config_.give_back) {
    attempt.lane_lock.unlock();
    attempt.slow_lock.unlock();
    const bool again = give_back(attempt.bytes);
    attempt.slow_lock.lock();
    attempt.lane_lock.lock();
    if (again && (coalesce(attempt) || flush_all(attempt) || synchronize(attempt))) return true;
  }
  return false;
}

bool Pool::Core::wait_others(Attempt& attempt) {
  if (!config_.wait_for_others) return false;
  attempt.lane_lock.unlock();
  attempt.slow_lock.unlock();
  const bool again = config_.wait_for_others(attempt.bytes);
  attempt.slow_lock.lock();
  attempt.lane_lock.lock();
  return again && (coalesce(attempt) || flush_all(attempt));
}

}  // namespace gpuwarden::memory
