// SPDX-License-Identifier: Apache-2.0
// A stretch of address space that belongs to one stream: blocks side by side, free ones in bins, and holes, which are
// whole pages of address space without memory. Knows no upstream: who maps and unmaps tells it.
#pragma once

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <vector>

#include "memory/bins.hpp"
#include "memory/block.hpp"
#include "memory/page_index.hpp"
#include "memory/start_index.hpp"

namespace gpuwarden::memory {

/// Whole pages without a user inside one free block, in grains from the region's start.
struct IdlePages {
  BlockNumber block = kNoBlock;
  Grains start = 0;
  Grains size = 0;
};

/// A piece may have any number of pages.
inline constexpr std::uint32_t kAnySize = ~std::uint32_t{0};

/// A place where a request could stand once the holes in it have memory.
struct Window {
  Grains start = 0;
  Grains size = 0;
  BlockNumber first = kNoBlock;  ///< the block that `start` lies in; kNoBlock: there is no such place
  std::uint32_t missing = 0;     ///< pages that have no memory
};

/// A live block inside another one, in grains from the region's start.
struct LivePart {
  Grains start = 0;
  Grains size = 0;
  std::uint32_t waste = 0;  ///< bytes that were not asked for
  std::uint32_t op = 0;     ///< number of the operation that asked for it
  std::uint32_t epoch = 0;
};

/// Not safe to use from several threads.
class Region {
 public:
  /// `total` is a multiple of kPageGrains; all of it is one hole. `large`: few blocks begin in the same page. `gate`:
  /// behind it find() may be called without the lock that the rest needs; it may miss a block then.
  Region(Grains total, bool large, BiasedLock* gate = nullptr);

  /// A live block of at least `size`, or kNoBlock.
  BlockNumber take(Grains size, const Strategy& strategy) {
    const BlockNumber number = bins_.find(blocks_, size, strategy.fit);
    if (number == kNoBlock) return kNoBlock;
    bins_.remove(blocks_, number);
    return carve(number, size, strategy);
  }

  /// The same, cut from the upper end of a free block.
  BlockNumber take_high(Grains size, const Strategy& strategy) {
    const BlockNumber number = bins_.find(blocks_, size, strategy.fit);
    if (number == kNoBlock) return kNoBlock;
    bins_.remove(blocks_, number);
    const Grains rest = blocks_[number].size - size;
    if (rest == 0 || !is_worth_splitting(rest, size, strategy)) return carve(number, size, strategy);
    const BlockNumber upper = split_unlisted(number, rest);
    bins_.insert(blocks_, number);
    blocks_[upper].state = BlockState::live;
    return upper;
  }

  /// The same as take() at a multiple of `alignment` grains.
  BlockNumber take_aligned(Grains size, Grains alignment, const Strategy& strategy);
  /// The same after looking at every block that could fit, however long it takes.
  BlockNumber take_anywhere(Grains size, const Strategy& strategy);
  /// So many blocks can be cut out of that one without memory (in a region of large blocks).
  void prepare(BlockNumber number, std::size_t count);
  bool is_large() const { return large_; }
  /// Of a block that is in no list only these parts stay live, each a block of its own; they are sorted. What lies
  /// between them becomes free, last used in `epoch`.
  void scatter(BlockNumber number, std::span<const LivePart> parts, std::uint32_t epoch);
  /// Cuts a live block to `size` at a multiple of `alignment`; the block that remains. Without memory for that
  /// (std::bad_alloc) all of it is given back.
  BlockNumber shrink(BlockNumber number, Grains size, Grains alignment);

  /// Makes a block free that is in no list, and merges it with its neighbours; the merged block.
  BlockNumber give(BlockNumber number, std::uint32_t epoch) {
    const Block& given = blocks_[number];
    BlockNumber merged = number;
    if (given.before != kNoBlock && blocks_[given.before].state == BlockState::free) {
      merged = given.before;
      bins_.remove(blocks_, merged);
      epoch = std::max(epoch, blocks_[merged].epoch);
      swallow_next(merged);
    }
    Block& block = blocks_[merged];
    if (block.after != kNoBlock && blocks_[block.after].state == BlockState::free) {
      bins_.remove(blocks_, block.after);
      epoch = std::max(epoch, blocks_[block.after].epoch);
      swallow_next(merged);
    }
    block.state = BlockState::free;
    block.epoch = epoch;
    bins_.insert(blocks_, merged);
    return merged;
  }

  Block& operator[](BlockNumber number) { return blocks_[number]; }
  const Block& operator[](BlockNumber number) const { return blocks_[number]; }
  /// The block that starts there, or kNoBlock.
  BlockNumber find(Grains start) const { return large_ ? pages_.find(blocks_, start) : starts_.find(start); }
  /// How many block numbers have been in use.
  BlockNumber numbers() const { return blocks_.size(); }
  /// The block at the lowest address.
  BlockNumber lowest() const { return find(0); }
  BlockNumber first_hole() const { return holes_; }

  /// The place for `size` that needs the fewest new pages, of the one at the top and those around the latest holes;
  /// `thorough`: around all of them.
  Window cheapest_window(Grains size, bool thorough) const;
  /// Makes a window that ends in the hole at the top larger by so many pages; whether it is larger now.
  bool widen(Window& window, std::uint32_t pages) const;
  /// Takes a window's blocks out of all lists, holes as whole pages, so that nothing else touches them; the first.
  BlockNumber claim(const Window& window);
  /// All of a claimed window has memory now: the live block in it.
  BlockNumber settle(BlockNumber first, const Window& window);
  /// Gives a claimed window up: holes are holes again, the rest is free.
  void unclaim(BlockNumber first, Grains end);

  /// Whole pieces of at most `largest` pages each in free blocks whose last use lies not behind `done_epoch`, the
  /// smallest blocks first: `pages`, or as many as there are, and what the last piece has beyond.
  std::vector<IdlePages> idle_pages(std::uint32_t pages, std::uint32_t done_epoch,
                                    std::uint32_t largest = kAnySize) const;
  /// Of the pages [first, end) of a free block the first run of such pieces, until `pages` are in it; no size: none.
  IdlePages whole_pieces(std::size_t first, std::size_t end, std::uint32_t pages,
                         std::uint32_t largest = kAnySize) const;
  /// Whether any free block is as large as a page.
  bool may_have_idle_pages() const { return bins_.next(Bins::bin_of(kPageGrains)) != Bins::kNone; }
  /// Takes whole pages of a free block out of all lists, so that nothing else touches them; the block that they are.
  BlockNumber claim_idle(const IdlePages& run) {
    const BlockNumber claimed = isolate(run.block, run.start, run.size);
    blocks_[claimed].state = BlockState::claimed;
    return claimed;
  }
  /// A live block of `size` at the beginning or the end of a free one, where `cost(start, block)` is least and at most
  /// `most`, which becomes what it costs; or kNoBlock. Looks at every free block that is large enough.
  template <class Cost>
  BlockNumber take_cheapest(Grains size, Cost cost, std::uint64_t& most) {
    BlockNumber best = kNoBlock;
    Grains best_start = 0;
    std::uint64_t least = most;
    for (unsigned bin = bins_.next(Bins::bin_of(size)); bin != Bins::kNone; bin = bins_.next(bin + 1)) {
      for (BlockNumber at = bins_.head(bin); at != kNoBlock; at = blocks_[at].right) {
        const Block& block = blocks_[at];
        if (block.size < size) continue;
        for (const Grains start : {Grains{block.start}, block.start + block.size - size}) {
          const std::uint64_t price = cost(start, block);
          if (price > least || (price == least && best != kNoBlock && start >= best_start)) continue;
          best = at;
          best_start = start;
          least = price;
        }
      }
    }
    if (best == kNoBlock) return kNoBlock;
    most = least;
    const BlockNumber taken = isolate(best, best_start, size);
    blocks_[taken].state = BlockState::live;
    return taken;
  }
  /// Pages of a free block lose their memory: they become a hole.
  void close(const IdlePages& run);
  /// A hole, or a claimed one, that is in no list gets merged with the holes beside it.
  void give_hole(BlockNumber number);

  Grains largest_free() const;
  std::size_t metadata_bytes() const { return blocks_.bytes() + pages_.bytes() + starts_.bytes() + sizeof(Region); }

  /// The piece that lies at each page: with its number of pages at the first of them, 0 at the others; no handle for a
  /// hole.
  std::vector<PageHandle>& handles() { return handles_; }
  const std::vector<PageHandle>& handles() const { return handles_; }

 private:
  /// Cuts a free block that is in no list to `size` by the strategy's rule and makes it live.
  BlockNumber carve(BlockNumber number, Grains size, const Strategy& strategy) {
    const Grains rest = blocks_[number].size - size;
    if (rest != 0 && is_worth_splitting(rest, size, strategy)) bins_.insert(blocks_, split_unlisted(number, size));
    blocks_[number].state = BlockState::live;
    return number;
  }

  static bool is_worth_splitting(Grains rest, Grains size, const Strategy& strategy) {
    if (rest >= strategy.split_from.value >> kGrainShift) return true;
    return strategy.split_share != 0 && rest > size / strategy.split_share;
  }

  /// Cuts a block in two; neither is put into a list. The upper part. Without memory for it (std::bad_alloc) nothing
  /// changes.
  BlockNumber split(BlockNumber number, Grains size) {
    const BlockNumber upper = blocks_.make();
    Block& block = blocks_[number];
    Block& rest = blocks_[upper];
    const BlockNumber after = block.after;
    rest.start = block.start + size;
    rest.size = block.size - size;
    rest.before = number;
    rest.after = after;
    rest.left = kNoBlock;
    rest.right = kNoBlock;
    rest.epoch = block.epoch;
    rest.user = 0;
    rest.state = block.state;
    if (after != kNoBlock) {
      blocks_[after].before = upper;
    } else {
      highest_ = upper;
    }
    // Threads without the lock come past it from now on.
    block.after.publish(upper);
    block.size = size;
    try {
      enter(upper);
    } catch (const std::bad_alloc&) {
      undo_split(number, upper);
      throw;
    }
    return upper;
  }
  /// Of a split whose upper part did not get into the index.
  [[gnu::cold]] void undo_split(BlockNumber number, BlockNumber upper);
  /// split() for a block that is listed again if there is no memory for that.
  BlockNumber split_unlisted(BlockNumber number, Grains size) {
    try {
      return split(number, size);
    } catch (const std::bad_alloc&) {
      list(number);
      throw;
    }
  }

  /// Merges the next block, which is in no list, into `number`.
  void swallow_next(BlockNumber number) {
    Block& block = blocks_[number];
    const BlockNumber gone = block.after;
    const Block& next = blocks_[gone];
    if (large_) {
      pages_.erase(blocks_, gone);
    } else {
      starts_.erase(next.start);
    }
    block.size += next.size;
    block.after.publish(next.after);
    if (block.after != kNoBlock) {
      blocks_[block.after].before = number;
    } else {
      highest_ = number;
    }
    blocks_.release(gone);
  }

  void enter(BlockNumber number) {
    if (large_) {
      pages_.insert(blocks_, number);
    } else {
      starts_.insert(blocks_[number].start, number);
    }
  }

  void list(BlockNumber number);
  void unlist(BlockNumber number);
  /// Cuts [start, start + size) out of a free block or hole and takes it out of its list; the rest stays listed.
  BlockNumber isolate(BlockNumber number, Grains start, Grains size);
  /// Longer gaps are looked at in part: a search must end.
  static constexpr std::size_t kLongestGap = 256;
  using Gap = std::array<BlockNumber, kLongestGap>;
  /// The free blocks and holes around a hole, if it is the first hole among them; how many they are.
  std::size_t gap_from(BlockNumber hole, Gap& gap) const;
  /// Tries the places in the gap whose first hole that is.
  void weigh_gap(BlockNumber hole, Window& best) const;
  void weigh(std::span<const BlockNumber> gap, std::size_t first, Grains start, Window& best) const;

  BlockTable blocks_;
  const Grains total_;
  const bool large_;
  PageIndex pages_;
  StartIndex starts_;
  Bins bins_;
  BlockNumber holes_ = kNoBlock;
  BlockNumber highest_ = kNoBlock;  ///< the block at the highest address
  std::vector<PageHandle> handles_;
};

}  // namespace gpuwarden::memory
