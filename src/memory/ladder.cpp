// SPDX-License-Identifier: Apache-2.0
// What is done when no free block fits: one rung after the other, each behind the slow lock and the lane's.
#include <algorithm>
#include <chrono>
#include <utility>

#include "memory/core.hpp"

namespace gpuwarden::memory {

struct Pool::Core::RungRow {
  Rung id;
  std::string_view name;
  RungFunction run;
};

const std::array<Pool::Core::RungRow, kRungs> Pool::Core::kRows{{
    {Rung::tidy, "tidy", &Core::tidy},
    {Rung::steal_done, "steal_done", &Core::steal_done},
    {Rung::grow_near, "grow_near", &Core::grow_near},
    {Rung::remap, "remap", &Core::remap},
    {Rung::wait_foreign, "wait_foreign", &Core::wait_foreign},
    {Rung::grow, "grow", &Core::grow},
    {Rung::steal_wait, "steal_wait", &Core::steal_wait},
    {Rung::flush_all, "flush_all", &Core::flush_all},
    {Rung::synchronize, "synchronize", &Core::synchronize},
    {Rung::callbacks, "callbacks", &Core::callbacks},
    {Rung::wait_others, "wait_others", &Core::wait_others},
}};

std::string_view to_string(Rung rung) {
  static constexpr std::array<std::string_view, kRungs> kNames{"tidy",         "steal_done", "grow_near",  "remap",
                                                               "wait_foreign", "grow",       "steal_wait", "flush_all",
                                                               "synchronize",  "callbacks",  "wait_others"};
  return kNames[static_cast<std::size_t>(rung)];
}

bool Pool::Core::climb(Attempt& attempt) {
  peak_live_ = std::max(peak_live_, live_bytes() + (std::uint64_t{attempt.size} << kGrainShift));
  for (const RungRow& row : kRows) {
    RungCount& count = rungs_[static_cast<std::size_t>(row.id)];
    const auto start = std::chrono::steady_clock::now();
    ++count.tried;
    const bool found = (this->*row.run)(attempt);
    // At least 1, so that a rung that was tried is told from one that was not.
    const auto spent = std::max<std::int64_t>(
        1, std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
    attempt.nanoseconds[static_cast<std::size_t>(row.id)] = static_cast<std::uint64_t>(spent);
    count.nanoseconds += static_cast<std::uint64_t>(spent);
    if (found) {
      ++count.helped;
      return true;
    }
    if (pages_.lost) break;
  }
  ++out_of_memory_;
  return false;
}

bool Pool::Core::accept(Attempt& attempt, Lane& lane, BlockNumber block) {
  if (block == kNoBlock) return false;
  lane.count_taken(lane.regions[attempt.region][block], attempt.bytes.value);
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
    if (safe || (wait && wait_for(attempt.lane, other, epoch))) return accept(attempt, other, number);
    region.give(number, epoch);
    return false;
  });
  return static_cast<bool>(attempt.found);
}

bool Pool::Core::search_all(Attempt& attempt) {
  return search(attempt) || steal(attempt, false) || back_window(attempt, {.idle = true, .created = true}) ||
         back_window(attempt, {.created = true});
}

bool Pool::Core::tidy(Attempt& attempt) {
  attempt.lane.flush();
  adopt_foreign(attempt.lane, false);
  return search(attempt);
}

bool Pool::Core::steal_done(Attempt& attempt) { return steal(attempt, false); }

namespace {

/// How far above the peak of live memory a pool may grow whose requests would have pages moved all the time.
constexpr unsigned kOftenShortPermille = 100;

}  // namespace

bool Pool::Core::grow_near(Attempt& attempt) {
  if (!strategy_.remap_above_permille) return false;
  LaneCounters& counters = attempt.lane.counters;
  const std::uint64_t live = counters.live.load(std::memory_order_relaxed);
  attempt.lane.misses.miss(attempt.size, live, counters.low_live);
  counters.low_live = live;
  const unsigned above =
      std::max(*strategy_.remap_above_permille, attempt.lane.misses.certainty() * strategy_.repeating_permille);
  const auto grow_to = [&](unsigned permille) {
    const std::uint64_t most = peak_live_ + peak_live_ / 1000 * permille;
    return back_window(attempt, {.created = true, .most_pages = std::min(most / kPage.value, soft_pages())});
  };
  if (grow_to(above)) return true;
  return attempt.lane.is_often_short() && grow_to(kOftenShortPermille);
}

bool Pool::Core::remap(Attempt& attempt) {
  if (!strategy_.remap_above_permille) return false;
  return back_window(attempt, {.idle = true, .created = true, .most_pages = soft_pages()});
}

bool Pool::Core::wait_foreign(Attempt& attempt) { return adopt_foreign(attempt.lane, true) && search(attempt); }

bool Pool::Core::grow(Attempt& attempt) {
  if (back_window(attempt, {.created = true, .most_pages = soft_pages()})) return true;
  if (!config_.soft_limit) return false;
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
    if (again && (tidy(attempt) || flush_all(attempt) || synchronize(attempt))) return true;
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
  return again && (tidy(attempt) || flush_all(attempt));
}

}  // namespace gpuwarden::memory
