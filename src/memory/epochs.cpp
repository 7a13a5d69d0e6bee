// SPDX-License-Identifier: Apache-2.0
// Streams' epochs: no event for a free, one for each time that somebody else wants a stream's memory.
#include <fmt/format.h>

#include <algorithm>
#include <bitset>

#include "memory/core.hpp"

namespace gpuwarden::memory {

std::uint32_t Pool::Core::end_epoch(Lane& lane) {
  const std::uint32_t ended = lane.epoch.load();
  if (ended >= kLateEpoch) epochs_are_late_ = true;
  if (ended == ~std::uint32_t{0}) return 0;
  return lane.epoch.fetch_add(1);
}

void Pool::Core::rebase_epochs() {
  bool late = false;
  for_each_lane([&](Lane& lane) {
    if (lane.epoch.load() < kLateEpoch) return;
    if (lane.is_private || !block_until_done(lane)) {
      late = true;
      return;
    }
    rebase_epochs(lane);
  });
  epochs_are_late_ = late;
}

void Pool::Core::rebase_epochs(Lane& lane) {
  const std::uint32_t done = lane.done;
  const auto rebased = [done](std::uint32_t epoch) { return epoch > done ? epoch - done : 0; };
  uses_.rebase(lane.number, done);
  for_each_lane([&](Lane& other) {
    if (other.waited[lane.number] != 0) other.waited.set(lane.number, rebased(other.waited[lane.number]));
    const std::lock_guard lock(other.lock);
    for (unsigned number = 0; number < kRegions; ++number) {
      Region& region = other.regions[number];
      for (BlockNumber at = other.foreign[number]; at != kNoBlock; at = region[at].right)
        if (region[at].user == lane.number) region[at].epoch = rebased(region[at].epoch);
    }
  });
  lane.notes.rebase(done);
  lane.done = lane.recorded = 0;
  const std::lock_guard lock(lane.lock);
  for (Region& region : lane.regions) {
    for (BlockNumber at = region.lowest(); at != kNoBlock; at = region[at].after)
      if (region[at].state == BlockState::free) region[at].epoch = rebased(region[at].epoch);
  }
  // Last: who reads the epoch before this and notes it after waits for more than needed, not for less.
  lane.epoch.store(lane.epoch.load() - done);
}

bool Pool::Core::record(Lane& lane) {
  if (pages_.lost || lane.is_private || lane.is_capturing || upstream_.is_capturing(lane.stream)) return false;
  // First the epoch, then the event: a free that still sees the old epoch was submitted before the event.
  const std::uint32_t covered = end_epoch(lane);
  if (covered == 0) return false;
  const auto event = pages_.called(upstream_.record(lane.stream));
  if (!event) return false;
  if (lane.event.value != 0) static_cast<void>(pages_.called(upstream_.forget(lane.event)));
  lane.event = *event;
  lane.recorded = covered;
  return true;
}

void Pool::Core::refresh_done(Lane& lane) {
  // Asking for an event would break a capture that is under way, whichever stream it is on.
  if (captures_underway_ != 0) return;
  if ((lane.event.value == 0 || lane.recorded == lane.done) && !record(lane)) return;
  if (pages_.lost) return;
  const auto done = pages_.called(upstream_.is_done(lane.event));
  if (done && *done) lane.done = lane.recorded;
}

bool Pool::Core::block_until_done(Lane& lane) {
  if (captures_underway_ != 0 || !record(lane)) return false;
  if (pages_.lost || !pages_.called(upstream_.synchronize(lane.event))) return false;
  lane.done = lane.recorded;
  return true;
}

bool Pool::Core::wait_for(Lane& waiting, Lane& user, std::uint32_t epoch) {
  if (&waiting == &user || epoch <= user.done || epoch <= waiting.waited[user.number]) return true;
  if (pages_.lost || waiting.is_capturing || upstream_.is_capturing(waiting.stream)) return false;
  if ((user.event.value == 0 || user.recorded < epoch) && !record(user)) return false;
  if (pages_.lost) return false;
  if (!pages_.called(upstream_.wait(waiting.stream, user.event))) return false;
  waiting.waited.set(user.number, user.recorded);
  return true;
}

Result<void> Pool::Core::record_stream(DeviceAddress address, StreamId stream) {
  const auto refuse = [&] {
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot note a use of {:#x}: no live block of this pool starts there", address.value),
                "it was freed before, or allocated elsewhere");
  };
  Grains start = 0;
  const Place place = place_of(address, start);
  if (place.lane == nullptr) return refuse();
  const std::lock_guard slow(slow_);
  Lane* user = lane_of(stream);
  if (user == nullptr) {
    GPUWARDEN_TRY(user, make_lane(stream));
  }
  const std::lock_guard lock(place.lane->lock);
  if (place.lane->covers(place.region, start)) place.lane->leave_script();
  Region& region = place.lane->regions[place.region];
  const BlockNumber number = region.find(start);
  if (number == kNoBlock) return refuse();
  Relaxed<BlockState>& state = region[number].state;
  if (state != BlockState::live && state != BlockState::shared) return refuse();
  if (stream == place.lane->stream) return {};
  uses_.add(address, usual(*user).number);
  state = BlockState::shared;
  return {};
}

Result<void> Pool::Core::deallocate_shared(const Place& place, Grains start, const Lane& user) {
  const std::lock_guard slow(slow_);
  const std::lock_guard lock(place.lane->lock);
  Region& region = place.lane->regions[place.region];
  const BlockNumber number = region.find(start);
  if (number == kNoBlock || region[number].state != BlockState::shared)
    return std::unexpected(bad_address(place.address, place, start));
  if (user.stream != place.lane->stream) uses_.add(place.address, user.number);
  for (StreamUse& use : uses_.of(place.address)) use.epoch = lanes_[use.lane]->epoch.load(std::memory_order_acquire);
  place.lane->give_shared(place.region, number);
  return {};
}

std::span<const StreamUse> Pool::Core::uses_of(const Lane& lane, unsigned region, BlockNumber block, StreamUse& only) {
  const Block& given = lane.regions[region][block];
  if (given.user == kSeveralUsers)
    return uses_.of({base_of(lane, region).value + (std::uint64_t{given.start} << kGrainShift)});
  only = {given.user, given.epoch};
  return {&only, 1};
}

bool Pool::Core::adopt_list(Lane& lane, unsigned region_number, bool wait) {
  Region& region = lane.regions[region_number];
  BlockNumber kept = kNoBlock;
  bool adopted = false;
  for (BlockNumber at = lane.foreign[region_number]; at != kNoBlock;) {
    Block& block = region[at];
    const BlockNumber next = block.right;
    StreamUse only{};
    const bool safe = std::ranges::all_of(uses_of(lane, region_number, at, only), [&](const StreamUse& use) {
      Lane& user = *lanes_[use.lane];
      return use.epoch <= user.done || use.epoch <= lane.waited[user.number] ||
             (wait && wait_for(lane, user, use.epoch));
    });
    if (safe) {
      if (block.user == kSeveralUsers)
        uses_.erase({base_of(lane, region_number).value + (std::uint64_t{block.start} << kGrainShift)});
      lane.counters.foreign -= block.size;
      region.give(at, lane.epoch.load(std::memory_order_relaxed));
      adopted = true;
    } else {
      block.right = kept;
      kept = at;
    }
    at = next;
  }
  lane.foreign[region_number] = kept;
  return adopted;
}

void Pool::Core::refresh_users(const Lane& lane, unsigned region) {
  std::bitset<kLanes> asked;
  for (BlockNumber at = lane.foreign[region]; at != kNoBlock; at = lane.regions[region][at].right) {
    StreamUse only{};
    for (const StreamUse& use : uses_of(lane, region, at, only)) {
      if (asked.test(use.lane) || use.epoch <= lanes_[use.lane]->done) continue;
      asked.set(use.lane);
      refresh_done(*lanes_[use.lane]);
    }
  }
}

bool Pool::Core::adopt_foreign(Lane& lane, bool wait) {
  bool adopted = false;
  for (unsigned region = 0; region < kRegions; ++region) {
    if (lane.foreign[region] == kNoBlock) continue;
    if (!wait) refresh_users(lane, region);
    adopted |= adopt_list(lane, region, wait);
  }
  return adopted;
}

}  // namespace gpuwarden::memory
