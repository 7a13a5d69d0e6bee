// SPDX-License-Identifier: Apache-2.0
// What belongs to one stream: its regions, its quick lists, its counters, its epochs. Everything is behind the lane's
// lock unless said otherwise.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "memory/inbox.hpp"
#include "memory/lifetimes.hpp"
#include "memory/locks.hpp"
#include "memory/miss_history.hpp"
#include "memory/notes.hpp"
#include "memory/region.hpp"
#include "memory/steps/finder.hpp"
#include "memory/steps/script.hpp"
#include "memory/stream_uses.hpp"

namespace gpuwarden::memory {

/// Streams that a pool can tell apart. The first ones' regions are large enough for the whole device; the others' are
/// 2^kNarrowBits times smaller, and what does not fit there goes to one of the first.
inline constexpr unsigned kLanes = 1024;
inline constexpr unsigned kWideLanes = 32;
inline constexpr unsigned kNarrowBits = 5;
/// Small requests and the others.
inline constexpr unsigned kRegions = 2;

/// Blocks of one size that were given back, the last one first.
struct QuickList {
  Grains size = 0;
  BlockNumber head = kNoBlock;
};

/// What a lane says before an operation that it wants to look at first.
enum class Attention : std::uint8_t {
  none,      ///< an ordinary operation
  followed,  ///< done, as the script has it
  begin,     ///< here a script may begin: Pool::Core::begin_script()
};

/// `live`, `allocations`, `frees`, `waste` and the crest are those of ordinary blocks; what was done by a script is
/// added by Lane::catch_up() (all but `live`, see Lane::live()).
struct LaneCounters {
  std::atomic<std::uint64_t> live = 0;  ///< grains; read without the lock
  std::uint64_t crest = 0;              ///< grains; the most since the cycle began
  std::uint64_t trough = 0;             ///< grains; the least since the crest
  std::uint64_t peak_live = 0;          ///< grains; the most before this cycle
  std::uint64_t ended_crest = 0;        ///< grains; of the cycles that ended since the demand was noted
  std::uint64_t waste = 0;              ///< bytes of live blocks that were not asked for
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t quick_hits = 0;
  std::uint64_t cached = 0;   ///< grains in quick lists
  std::uint64_t foreign = 0;  ///< grains given back on other streams
};

/// An epoch for each lane, 0 until it is set.
class EpochTable {
 public:
  std::uint32_t operator[](unsigned lane) const { return lane < epochs_.size() ? epochs_[lane] : 0; }
  void set(unsigned lane, std::uint32_t epoch) {
    if (lane >= epochs_.size()) epochs_.resize(lane + 1);
    epochs_[lane] = epoch;
  }

 private:
  std::vector<std::uint32_t> epochs_;
};

/// How a lane follows its script.
struct LearnedStep {
  /// So many operations in a pass that the script does not have are served beside it.
  static constexpr unsigned kMostStrays = 64;

  unsigned region = 0;
  std::uint64_t base = 0;        ///< the region's address
  BlockNumber arena = kNoBlock;  ///< the block that the script's places lie in
  Grains start = 0;
  Grains size = 0;
  std::uint32_t counted = 0;   ///< operations of this pass that catch_up() has counted
  std::uint32_t first_op = 0;  ///< number of the first one of this pass
  std::uint64_t passes = 0;    ///< before this one
  /// Operations in this pass that the script does not have: before which of it, and their words.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> strays;
  bool expects_ordinary = false;  ///< the operation under way is in the script, but not planned
  std::uint64_t operations = 0;   ///< done by scripts, ever
};

struct alignas(128) Lane {
  static constexpr unsigned kQuickBits = 9;
  static constexpr std::uint32_t kNever = ~std::uint32_t{0};
  /// Grains that the quick lists may hold however small the pool is.
  static constexpr std::uint64_t kLeastQuickRoom = (8_MiB).value >> kGrainShift;

  Lane(unsigned lane_number, StreamId lane_stream, Grains total, const Strategy& lane_strategy)
      : stream(lane_stream),
        number(static_cast<std::uint16_t>(lane_number)),
        strategy(lane_strategy),
        quick_most(lane_strategy.quick_permille),
        quick_permille(lane_strategy.quick_permille),
        trim_every(lane_strategy.trim_every != 0 ? lane_strategy.trim_every : kNever),
        small_below(static_cast<Grains>(lane_strategy.small_below.value >> kGrainShift)),
        regions{Region(total, lane_strategy.small_below >= 64_KiB, &inbox.gate), Region(total, false, &inbox.gate)} {}

  // What the common path reads comes first.
  BiasedLock lock;
  /// The next operation of the script that is followed; &kNoEntry: of none. Read without the lock behind the slow one.
  std::atomic<const ScriptEntry*> cursor = &kNoEntry;
  const StreamId stream;
  StepTape tape;
  const std::uint16_t number;
  const Strategy strategy;
  std::uint64_t quick_room = 0;    ///< grains that quick lists may hold
  unsigned quick_most;             ///< the same in thousandths of what is reserved, at most
  unsigned quick_permille;         ///< and now
  std::uint64_t reserved = 0;      ///< grains that the pool has, as of the last growth
  std::uint64_t unused = 0;        ///< blocks flushed since the quick lists were weighed last
  std::uint64_t weighed_hits = 0;  ///< quick hits up to then
  const std::uint32_t trim_every;
  const Grains small_below;
  // What changes with every operation: not beside what other threads read to give something back.
  alignas(64) LaneCounters counters;
  /// Frees up to now belong to this epoch, at least 1. Read without the lock by those that give memory back on this
  /// stream.
  std::atomic<std::uint32_t> epoch = 1;
  std::array<QuickList, 1U << kQuickBits> quick;
  std::array<std::uint64_t, (1U << kQuickBits) / 64> quick_used{};  ///< lists that may hold something, a bit each
  Inbox inbox;
  std::array<Region, kRegions> regions;
  std::array<BlockNumber, kRegions> foreign{kNoBlock, kNoBlock};
  std::uint32_t cycle = 1;
  MissHistory misses;
  Lifetimes lifetimes;  ///< where the strategy has two ends
  Shortage shortage;
  CycleLengths lengths;
  bool wanders = false;               ///< its shapes change and it has no steps: judge()
  Relaxed<std::uint32_t> merges = 0;  ///< merging frees since the last trim
  std::uint64_t trimmed_crest = 0;    ///< grains; the highest crest of the cycles that ended since then

  // Learned steps:
  PeriodFinder finder;
  Script script;  ///< exchanged behind the slow lock, too
  LearnedStep learned;
  bool learns_steps = false;

  // Behind the pool's lock for slow work:
  EventHandle event;  ///< behind all work up to epoch `recorded`
  std::uint32_t recorded = 0;
  std::uint32_t done = 0;  ///< work up to this epoch is known to be done
  EpochNotes notes;
  std::uint64_t noted = 0;        ///< operations when the demand was last noted
  std::uint64_t noted_crest = 0;  ///< grains; the crest that was seen then, in this cycle:
  std::uint32_t noted_cycle = 0;
  unsigned quiet_notes = 0;   ///< notes of the demand since its last operation
  std::uint64_t sampled = 0;  ///< operations when fragmentation was last sampled here
  Lane* usual = nullptr;      ///< of a lane for captures: the one that its stream has otherwise; set before it is used
  bool is_private = false;    ///< kept for a captured graph: nothing is taken from it
  bool is_capturing = false;  ///< its stream is being captured: no event may be recorded or waited for there
  bool is_retired = false;    ///< of a graph that was released; its stream leads to another lane
  std::uint64_t lent = 0;     ///< pages that other lanes took from here since a request last found no block
  std::uint64_t lent_at = 0;  ///< allocations up to then
  std::uint64_t noted_peak = 0;  ///< grains; the most that was live, as of then
  EpochTable waited;             ///< up to which epoch of each other lane this stream waits

  unsigned region_for(Grains size) const { return size < small_below ? 1 : 0; }
  static unsigned quick_slot(Grains size) { return (size * 0x9E3779B1U) >> (32 - kQuickBits); }

  /// A step of a training run fills memory and empties it again: whether the next rise has just begun.
  bool begins_cycle() const {
    const std::uint64_t live = counters.live.load(std::memory_order_relaxed);
    return counters.trough < counters.crest / 2 && live > counters.trough + counters.crest / 64;
  }
  /// Whether it does so again and again, as training does.
  bool steps_through_cycles() const {
    constexpr std::uint64_t kLongest = 32768;  // allocations of a step that is not learned
    return follows() || (cycle > 1 && cycle * kLongest > counters.allocations && lengths.are_alike());
  }
  /// Whether requests come in steps, or in shapes that change all the time, as inference's do: then what is kept
  /// unmerged is in the way of the next shape, and pages would move for it.
  void judge() {
    constexpr std::uint64_t kTimeToTell = 2000;  // allocations
    constexpr unsigned kQuickPermille = 5;
    const bool now = strategy.learns && counters.allocations > kTimeToTell && !steps_through_cycles();
    if (now == std::exchange(wanders, now)) return;
    quick_most = now ? std::min(kQuickPermille, strategy.quick_permille) : strategy.quick_permille;
    quick_permille = now ? std::min(quick_permille, quick_most) : quick_most;
    fit_quick_room(reserved);
  }
  /// Whether the quick lists have proved useful.
  bool sizes_come_back() const {
    return quick_permille >= quick_most / 8 || 16 * counters.quick_hits >= counters.allocations;
  }
  /// Everything that is free is merged, so that each cycle begins with the same free blocks and finds the same places.
  [[gnu::noinline]] void begin_cycle() {
    flush();
    if (sizes_come_back()) shortage.forget();
    // A step like those before it still finds no place for everything: unmerged blocks are in the way.
    if (misses.end_cycle() > 1) quick_most /= 2;
    begin_crest(counters.live.load(std::memory_order_relaxed));
  }
  /// So many grains are live when the search for the next crest begins.
  void begin_crest(std::uint64_t live) {
    ++cycle;
    lengths.end(counters.allocations);
    trimmed_crest = std::max(trimmed_crest, counters.crest);
    if (!is_noted_crest()) counters.ended_crest = std::max(counters.ended_crest, counters.crest);
    counters.peak_live = std::max(counters.peak_live, std::exchange(counters.crest, live));
    counters.trough = live;
  }
  /// Whether the crest is older than the last note of the demand.
  bool is_noted_crest() const { return cycle == noted_cycle && counters.crest == noted_crest; }
  std::uint64_t peak_live() const { return std::max(counters.peak_live, counters.crest); }

  // Learned steps (steps/follow.cpp).
  bool follows() const { return cursor.load(std::memory_order_relaxed) != &kNoEntry; }
  /// Grains of all live blocks. With the lane's lock or the slow one.
  std::uint64_t live() const {
    const ScriptEntry* const next = cursor.load(std::memory_order_relaxed);
    const std::uint64_t ordinary = counters.live.load(std::memory_order_relaxed);
    return next == &kNoEntry ? ordinary : ordinary + script.live_at[script.at(next)];
  }
  /// Whether the address lies in what a script has taken.
  bool covers(unsigned region, Grains start) const {
    return follows() && region == learned.region && start - learned.start < learned.size;
  }
  /// Before an allocation while the tape is due. `address` is what the script gives out.
  Attention attend_allocation(std::uint64_t bytes, DeviceAddress& address);
  /// Before an allocation that no script may serve.
  void attend_apart(std::uint64_t bytes);
  /// The same before a free on the lane's own stream; `size` may be nullptr.
  Attention attend_free(unsigned region, Grains start, DeviceAddress address, const Bytes* size);
  /// A free on another stream, which a script may have, too.
  void expect_foreign_free(std::uint64_t bytes);
  /// Begins to follow the script, whose places lie in that block of a region that begins at address `base`. There is
  /// room for the strays already: nothing can fail.
  void follow(unsigned region, BlockNumber arena, std::uint64_t base);
  /// Planned blocks become ordinary ones, and free memory between them; the tape goes on behind what was followed.
  void leave_script();
  /// Brings the counters up to date.
  void catch_up();
  /// What was asked for when the script gave out the block there that is live; empty: there is none.
  std::optional<Bytes> planned_size(DeviceAddress address) const;
  std::size_t step_bytes() const { return tape.bytes() + finder.bytes() + script.bytes(); }

  /// A live block from the quick lists; kNoBlock without.
  BlockNumber take_quick(unsigned region_number, Grains size) {
    QuickList& list = quick[quick_slot(size)];
    if (list.size != size || list.head == kNoBlock) return kNoBlock;
    const BlockNumber block_number = list.head;
    Block& block = regions[region_number][block_number];
    list.head = block.right;
    counters.cached -= size;
    ++counters.quick_hits;
    block.state = BlockState::live;
    return block_number;
  }

  /// A live block from the bins, when the quick lists have none; kNoBlock without.
  BlockNumber take_listed(unsigned region_number, Grains size) {
    if (begins_cycle() && !follows()) begin_cycle();
    // Among random sizes there is nothing to be learned.
    if (sizes_come_back()) misses.request(size);
    if (!strategy.two_ends) return regions[region_number].take(size, strategy);
    // Small requests have pages of their own already.
    const bool high = region_number == 0 && lifetimes.is_brief(size);
    const BlockNumber taken = high ? regions[0].take_high(size, strategy) : regions[region_number].take(size, strategy);
    if (taken != kNoBlock) note_birth(regions[region_number][taken]);
    return taken;
  }

  /// take_listed() found none, nor did the slow path. Size 0 is one that nobody asks for.
  void note_miss(Grains size) { misses.miss(sizes_come_back() ? size : 0); }

  /// Of a live block; what is taken from quick lists keeps its earlier one.
  void note_birth(Block& block) const {
    if (strategy.two_ends) block.epoch = static_cast<std::uint32_t>(counters.allocations);
  }

  void count_taken(Block& block, std::uint64_t bytes) {
    const std::uint64_t waste = (static_cast<std::uint64_t>(block.size) << kGrainShift) - bytes;
    block.left = static_cast<std::uint32_t>(waste);
    counters.waste += waste;
    const std::uint64_t live = counters.live.load(std::memory_order_relaxed) + block.size;
    counters.live.store(live, std::memory_order_relaxed);
    if (live > counters.crest) counters.trough = counters.crest = live;
    ++counters.allocations;
    tape.allocated(block, bytes);
  }

  /// `apart`: word::kApart if it was not given back on the lane's own stream alone.
  void count_given(const Block& block, std::uint64_t apart = 0) {
    tape.freed(block, apart);
    const std::uint64_t live = counters.live.load(std::memory_order_relaxed) - block.size;
    counters.live.store(live, std::memory_order_relaxed);
    if (live < counters.trough) counters.trough = live;
    counters.waste -= block.left;
    ++counters.frees;
  }

  /// A live block was given back on this lane's own stream; false: there is no room in the quick lists, or the free
  /// block below has to grow. What lies above is mostly the rest of the block that this one was cut from.
  bool give_quick(unsigned region_number, BlockNumber block_number) {
    Block& block = regions[region_number][block_number];
    const Grains size = block.size;
    const unsigned slot = quick_slot(size);
    QuickList& list = quick[slot];
    if (counters.cached + size > quick_room || (list.size != size && list.head != kNoBlock) ||
        region_for(size) != region_number ||
        (block.before != kNoBlock && regions[region_number][block.before].state == BlockState::free))
      return false;
    count_given(block);
    if (list.head == kNoBlock) {
      list.size = size;
      quick_used[slot / 64] |= std::uint64_t{1} << (slot % 64);
    }
    block.state = BlockState::cached;
    block.right = std::exchange(list.head, block_number);
    counters.cached += size;
    return true;
  }

  /// The same past the quick lists.
  void give_listed(unsigned region_number, BlockNumber block_number) {
    Region& region = regions[region_number];
    const Block& block = region[block_number];
    count_given(block);
    if (strategy.two_ends) lifetimes.ended(block.size, static_cast<std::uint32_t>(counters.allocations) - block.epoch);
    ++merges;
    region.give(block_number, epoch.load(std::memory_order_relaxed));
  }

  void give(unsigned region_number, BlockNumber block_number) {
    if (!give_quick(region_number, block_number)) give_listed(region_number, block_number);
  }

  /// Without the lane's lock: leaves a live block for which `requested` was asked (nullptr: whatever) in the inbox;
  /// false: what is wrong is for the lock to find out, or there is no room.
  bool leave(unsigned region_number, Grains start, const Bytes* requested) {
    if (trim_every != kNever && merges >= trim_every) return false;
    // The script may wait for this one, and would not see it.
    if (follows()) return false;
    const std::lock_guard gated(inbox.gate);
    Region& region = regions[region_number];
    const BlockNumber found = region.find(start);
    if (found == kNoBlock || inbox.is_full()) return false;
    Block& block = region[found];
    if (block.state != BlockState::live || block.start != start) return false;
    const Grains size = block.size;
    if (requested != nullptr && (std::uint64_t{size} << kGrainShift) - block.left != requested->value) return false;
    block.state = BlockState::left;
    inbox.put(region_number, found, size);
    return true;
  }

  /// Takes over what was left in the inbox.
  void collect() {
    if (inbox.has_any()) [[unlikely]]
      empty_inbox();
  }
  [[gnu::noinline]] void empty_inbox() {
    inbox.empty([&](unsigned region, BlockNumber at) { __builtin_prefetch(&regions[region][at], 1); },
                [&](unsigned region, BlockNumber at) {
                  Block& block = regions[region][at];
                  const Grains size = block.size;
                  // Given back twice at a time, which is too late to be told to anybody.
                  if (block.state != BlockState::left) return size;
                  block.state = BlockState::live;
                  give(region, at);
                  return size;
                });
  }
  /// Makes room in the inbox if it is full.
  void make_room() {
    const auto is_full = [&] {
      const std::lock_guard gated(inbox.gate);
      return inbox.is_full();
    };
    if (!is_full()) return;
    collect();
    const std::lock_guard gated(inbox.gate);
    if (!inbox.has_any()) inbox.grow();
  }

  /// A live block was given back on another lane's stream, at that lane's epoch.
  void give_foreign(unsigned region_number, BlockNumber block_number, std::uint16_t user, std::uint32_t user_epoch) {
    Block& block = regions[region_number][block_number];
    count_given(block, word::kApart);
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

  /// The pool has so many grains.
  void fit_quick_room(std::uint64_t pool) {
    reserved = pool;
    quick_room = std::max(kLeastQuickRoom, pool / 1000 * quick_permille);
  }

  /// Merges all quick lists; whether there was anything in them.
  bool flush() {
    if (counters.cached == 0) return false;
    std::uint64_t blocks = 0;
    for (unsigned word = 0; word < quick_used.size(); ++word) {
      for (std::uint64_t left = std::exchange(quick_used[word], 0); left != 0; left &= left - 1)
        blocks += flush(quick[word * 64 + static_cast<unsigned>(std::countr_zero(left))]);
    }
    counters.cached = 0;
    weigh_quick_lists(blocks);
    return true;
  }

 private:
  std::uint32_t position() const { return script.at(cursor.load(std::memory_order_relaxed)); }
  Attention look();
  void step_over();
  void end_pass();
  void stray(std::uint64_t word);
  std::uint32_t next_op() const {
    return learned.first_op + position() + static_cast<std::uint32_t>(learned.strays.size());
  }
  void rewrite_tape();

  std::uint64_t flush(QuickList& list) {
    Region& region = regions[region_for(list.size)];
    std::uint64_t blocks = 0;
    for (; list.head != kNoBlock; ++blocks) {
      const BlockNumber gone = std::exchange(list.head, region[list.head].right);
      region.give(gone, epoch.load(std::memory_order_relaxed));
    }
    return blocks;
  }

  /// Where few of the blocks that are kept unmerged are asked for again, fewer are kept.
  void weigh_quick_lists(std::uint64_t blocks) {
    unused += blocks;
    if (unused < 32) return;
    const std::uint64_t hits = counters.quick_hits - std::exchange(weighed_hits, counters.quick_hits);
    if (4 * hits < unused) {
      quick_permille /= 2;
    } else if (hits > unused) {
      quick_permille = 2 * quick_permille + 1;
    }
    quick_permille = std::min(quick_permille, quick_most);
    fit_quick_room(reserved);
    unused = 0;
  }
};

/// Holds a lane's lock, for other work than the common path's: what was left in the inbox is taken over first.
class LaneGuard {
 public:
  explicit LaneGuard(Lane& lane) : lane_(lane) {
    lane_.lock.lock();
    lane_.collect();
  }
  LaneGuard(const LaneGuard&) = delete;
  LaneGuard& operator=(const LaneGuard&) = delete;
  ~LaneGuard() { lane_.lock.unlock(); }

 private:
  Lane& lane_;
};

}  // namespace gpuwarden::memory
