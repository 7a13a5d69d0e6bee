// SPDX-License-Identifier: Apache-2.0
// Streams' epochs: no event for a free, one for each time that somebody else wants a stream's memory.
#include <utility>

#include "memory/core.hpp"

namespace gpuwarden::memory {

bool Pool::Core::record(Lane& lane) {
  if (pages_.lost) return false;
  // First the epoch, then the event: a free that still sees the old epoch was submitted before the event.
  const std::uint32_t covered = lane.epoch.fetch_add(1);
  const auto event = pages_.called(upstream_.record(lane.stream));
  if (!event) return false;
  if (lane.event.value != 0) static_cast<void>(pages_.called(upstream_.forget(lane.event)));
  lane.event = *event;
  lane.recorded = covered;
  return true;
}

void Pool::Core::refresh_done(Lane& lane) {
  if ((lane.event.value == 0 || lane.recorded == lane.done) && !record(lane)) return;
  if (pages_.lost) return;
  const auto done = pages_.called(upstream_.is_done(lane.event));
  if (done && *done) lane.done = lane.recorded;
}

void Pool::Core::block_until_done(Lane& lane) {
  if (!record(lane)) return;
  if (pages_.called(upstream_.synchronize(lane.event))) lane.done = lane.recorded;
}

bool Pool::Core::wait_for(Lane& waiting, Lane& user, std::uint32_t epoch) {
  if (&waiting == &user || epoch <= user.done || epoch <= waiting.waited[user.number]) return true;
  if ((user.event.value == 0 || user.recorded < epoch) && !record(user)) return false;
  if (pages_.lost) return false;
  if (!pages_.called(upstream_.wait(waiting.stream, user.event))) return false;
  waiting.waited[user.number] = user.recorded;
  return true;
}

bool Pool::Core::adopt_list(Lane& lane, unsigned region_number, bool wait) {
  Region& region = lane.regions[region_number];
  BlockNumber kept = kNoBlock;
  bool adopted = false;
  for (BlockNumber at = lane.foreign[region_number]; at != kNoBlock;) {
    Block& block = region[at];
    const BlockNumber next = block.right;
    Lane& user = *lanes_[block.user];
    const bool safe = block.epoch <= user.done || block.epoch <= lane.waited[user.number];
    if (safe || (wait && wait_for(lane, user, block.epoch))) {
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

bool Pool::Core::adopt_foreign(Lane& lane, bool wait) {
  bool adopted = false;
  for (unsigned region = 0; region < kRegions; ++region) {
    if (lane.foreign[region] == kNoBlock) continue;
    if (!wait) {
      std::array<bool, kLanes> asked{};
      for (BlockNumber at = lane.foreign[region]; at != kNoBlock; at = lane.regions[region][at].right) {
        const Block& block = lane.regions[region][at];
        if (std::exchange(asked[block.user], true) || block.epoch <= lanes_[block.user]->done) continue;
        refresh_done(*lanes_[block.user]);
      }
    }
    adopted |= adopt_list(lane, region, wait);
  }
  return adopted;
}

}  // namespace gpuwarden::memory
