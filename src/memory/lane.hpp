// SPDX-License-Identifier: Apache-2.0
// What belongs to one stream: its regions, its quick lists, its counters, its epochs. Everything is behind the lane's
// lock unless said otherwise.
#pragma once

#include <array>
#include <atomic>
#include <utility>

#include "memory/locks.hpp"
#include "memory/miss_history.hpp"
#include "memory/notes.hpp"
#include "memory/region.hpp"
#include "memory/stream_uses.hpp"

namespace gpuwarden::memory {

inline constexpr unsigned kLaneBits = 5;
inline constexpr unsigned kLanes = 1U << kLaneBits;
/// Small requests and the others.
inline constexpr unsigned kRegions = 2;

/// Blocks of one size that were given back, the last one first.
struct QuickList {
  Grains size = 0;
  std::uint32_t count = 0;
  BlockNumber head = kNoBlock;
};

struct LaneCounters {
  std::atomic<std::uint64_t> live = 0;  ///< grains; read without the lock
  std::uint64_t peak_live = 0;          ///< grains; since the last note of the demand
  std::uint64_t earlier_peak_live = 0;  ///< grains; before that
  std::uint64_t low_live = 0;           ///< grains; the least since a request missed
  std::uint64_t waste = 0;              ///< bytes of live blocks that were not asked for
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t quick_hits = 0;
  std::uint64_t cached = 0;   ///< grains in quick lists
  std::uint64_t foreign = 0;  ///< grains given back on other streams
};

struct alignas(128) Lane {
  static constexpr unsigned kQuickBits = 7;

  Lane(unsigned lane_number, StreamId lane_stream, Grains total, const Strategy& lane_strategy)
      : number(static_cast<std::uint16_t>(lane_number)),
        stream(lane_stream),
        strategy(lane_strategy),
        trim_every(lane_strategy.trim_every != 0 ? lane_strategy.trim_every : ~std::uint32_t{0}),
        small_below(static_cast<Grains>(lane_strategy.small_below.value >> kGrainShift)),
        regions{Region(total, lane_strategy.small_below >= 64_KiB), Region(total, false)} {}

  FavouringLock lock;
  const std::uint16_t number;
  const StreamId stream;
  const Strategy strategy;
  std::uint64_t quick_room = 0;  ///< grains that quick lists may hold
  const std::uint32_t trim_every;
  const Grains small_below;
  LaneCounters counters;
  /// Frees up to now belong to this epoch. Read without the lock by those that give memory back on this stream.
  std::atomic<std::uint32_t> epoch = 1;
  std::array<QuickList, 1U << kQuickBits> quick;
  std::array<Region, kRegions> regions;
  std::array<BlockNumber, kRegions> foreign{kNoBlock, kNoBlock};
  MissHistory misses;
  std::uint64_t last_short = 0;  ///< allocations when pages would last have had to move
  unsigned shortages = 0;
  std::uint32_t merges = 0;  ///< merging frees since the last trim

  // Behind the pool's lock for slow work:
  EventHandle event;  ///< behind all work up to epoch `recorded`
  std::uint32_t recorded = 0;
  std::uint32_t done = 0;  ///< work up to this epoch is known to be done
  EpochNotes notes;
  std::uint64_t noted = 0;    ///< operations when the demand was last noted
  unsigned quiet_notes = 0;   ///< notes of the demand since its last operation
  std::uint64_t sampled = 0;  ///< operations when fragmentation was last sampled here
  bool is_private = false;    ///< kept for a captured graph: nothing is taken from it
  bool is_capturing = false;  ///< its stream is being captured: no event may be recorded or waited for there
  bool is_retired = false;    ///< of a graph that was released; its stream leads to another lane
  std::array<std::uint32_t, kLanes> waited{};  ///< up to which epoch of each other lane this stream waits

  unsigned region_for(Grains size) const { return size < small_below ? 1 : 0; }
  QuickList& quick_for(Grains size) { return quick[(size * 0x9E3779B1U) >> (32 - kQuickBits)]; }

  /// Pages would have to move once more; whether that happens every few allocations.
  bool is_often_short() {
    const std::uint64_t gap = counters.allocations - std::exchange(last_short, counters.allocations);
    shortages = gap < 16 ? std::min(shortages + 1, 64U) : shortages / 2;
    return shortages >= 32;
  }

  /// A live block from the quick lists or the free blocks, counted; kNoBlock without.
  BlockNumber take(unsigned region_number, Grains size) {
    Region& region = regions[region_number];
    QuickList& list = quick_for(size);
    if (list.size == size && list.count != 0) {
      const BlockNumber block_number = list.head;
      Block& block = region[block_number];
      list.head = block.right;
      --list.count;
      counters.cached -= size;
      ++counters.quick_hits;
      block.state = BlockState::live;
      return block_number;
    }
    return region.take(size, strategy);
  }

  void count_taken(Block& block, std::uint64_t bytes) {
    const std::uint64_t waste = (static_cast<std::uint64_t>(block.size) << kGrainShift) - bytes;
    block.left = static_cast<std::uint32_t>(waste);
    counters.waste += waste;
    const std::uint64_t live = counters.live.load(std::memory_order_relaxed) + block.size;
    counters.live.store(live, std::memory_order_relaxed);
    if (live > counters.peak_live) counters.peak_live = live;
    ++counters.allocations;
  }

  void count_given(const Block& block) {
    const std::uint64_t live = counters.live.load(std::memory_order_relaxed) - block.size;
    counters.live.store(live, std::memory_order_relaxed);
    if (live < counters.low_live) counters.low_live = live;
    counters.waste -= block.left;
    ++counters.frees;
  }

  /// A live block was given back on this lane's own stream.
  void give(unsigned region_number, BlockNumber block_number) {
    Region& region = regions[region_number];
    Block& block = region[block_number];
    count_given(block);
    QuickList& list = quick_for(block.size);
    const bool kept = counters.cached + block.size <= quick_room && (list.size == block.size || list.count == 0) &&
                      region_for(block.size) == region_number;
    if (!kept) {
      ++merges;
      region.give(block_number, epoch.load(std::memory_order_relaxed));
      return;
    }
    block.state = BlockState::cached;
    block.right = list.count == 0 ? kNoBlock : list.head;
    list.head = block_number;
    list.size = block.size;
    ++list.count;
    counters.cached += block.size;
  }

  /// A live block was given back on another lane's stream, at that lane's epoch.
  void give_foreign(unsigned region_number, BlockNumber block_number, std::uint16_t user, std::uint32_t user_epoch) {
    Block& block = regions[region_number][block_number];
    count_given(block);
    counters.foreign += block.size;
    block.state = BlockState::foreign;
    block.user = user;
    block.epoch = user_epoch;
    block.right = foreign[region_number];
    foreign[region_number] = block_number;
  }

  /// A live block that several streams have used was given back: it waits for all of them.
  void give_shared(unsigned region_number, BlockNumber block_number) {
    give_foreign(region_number, block_number, kSeveralUsers, 0);
  }

  /// Merges all quick lists.
  void flush() {
    if (counters.cached == 0) return;
    const std::uint32_t now = epoch.load(std::memory_order_relaxed);
    for (QuickList& list : quick) {
      for (; list.count != 0; --list.count) {
        Region& region = regions[region_for(list.size)];
        const BlockNumber next = region[list.head].right;
        region.give(list.head, now);
        list.head = next;
      }
    }
    counters.cached = 0;
  }
};

}  // namespace gpuwarden::memory
