// SPDX-License-Identifier: Apache-2.0
#include "memory/region.hpp"

#include <limits>
#include <new>

namespace gpuwarden::memory {
namespace {

/// A search must end soon: the latest holes are the likeliest to be near free memory.
constexpr unsigned kHolesLookedAt = 24;
constexpr std::uint32_t kImpossible = std::numeric_limits<std::uint32_t>::max();
Grains round_down(Grains at) { return at / kPageGrains * kPageGrains; }
Grains round_up(Grains at) { return round_down(at + kPageGrains - 1); }

}  // namespace

Region::Region(Grains total, bool large, BiasedLock* gate)
    : blocks_(gate), total_(total), large_(large), pages_(gate), starts_(gate) {
  const BlockNumber all = blocks_.make();
  highest_ = all;
  blocks_[all] = Block{.start = 0,
                       .size = total,
                       .before = kNoBlock,
                       .after = kNoBlock,
                       .left = kNoBlock,
                       .right = kNoBlock,
                       .epoch = 0,
                       .user = 0,
                       .state = BlockState::hole};
  enter(all);
  list(all);
}

BlockNumber Region::take_aligned(Grains size, Grains alignment, const Strategy& strategy) {
  const BlockNumber number = bins_.find(blocks_, size + alignment - 1, strategy.fit);
  if (number == kNoBlock) return kNoBlock;
  const Grains start = (blocks_[number].start + alignment - 1) / alignment * alignment;
  const BlockNumber taken = isolate(number, start, size);
  blocks_[taken].state = BlockState::live;
  return taken;
}

BlockNumber Region::take_anywhere(Grains size, const Strategy& strategy) {
  FitRule rule = strategy.fit;
  rule.own_class_scan = std::numeric_limits<unsigned>::max();
  const BlockNumber number = bins_.find(blocks_, size, rule);
  if (number == kNoBlock) return kNoBlock;
  bins_.remove(blocks_, number);
  return carve(number, size, strategy);
}

BlockNumber Region::shrink(BlockNumber number, Grains size, Grains alignment) {
  const std::uint32_t epoch = blocks_[number].epoch;
  const Grains front = (alignment - blocks_[number].start % alignment) % alignment;
  BlockNumber kept = number;
  try {
    if (front != 0) kept = split(number, front);
    if (blocks_[kept].size > size) give(split(kept, size), epoch);
  } catch (const std::bad_alloc&) {
    give(kept, epoch);
    if (kept != number) give(number, epoch);
    throw;
  }
  if (front != 0) give(number, epoch);
  return kept;
}

void Region::undo_split(BlockNumber number, BlockNumber upper) {
  Block& block = blocks_[number];
  const Block& rest = blocks_[upper];
  block.size += rest.size;
  block.after = rest.after;
  if (block.after != kNoBlock) {
    blocks_[block.after].before = number;
  } else {
    highest_ = number;
  }
  blocks_.release(upper);
}

void Region::prepare(BlockNumber number, std::size_t count) {
  blocks_.prepare(static_cast<BlockNumber>(count));
  if (large_) pages_.prepare(blocks_[number].start + blocks_[number].size);
}

void Region::scatter(BlockNumber number, std::span<const LivePart> parts, std::uint32_t epoch) {
  // Not free: it must not be merged before its turn.
  blocks_[number].state = BlockState::live;
  for (const LivePart& part : parts) {
    if (const Grains front = part.start - blocks_[number].start; front != 0) {
      const BlockNumber upper = split(number, front);
      give(number, epoch);
      number = upper;
    }
    const BlockNumber upper = blocks_[number].size > part.size ? split(number, part.size) : kNoBlock;
    Block& block = blocks_[number];
    block.left = part.waste;
    block.right = part.op;
    block.epoch = part.epoch;
    number = upper;
  }
  if (number != kNoBlock) give(number, epoch);
}

void Region::list(BlockNumber number) {
  if (blocks_[number].state == BlockState::free) {
    bins_.insert(blocks_, number);
    return;
  }
  blocks_[number].left = kNoBlock;
  blocks_[number].right = holes_;
  if (holes_ != kNoBlock) blocks_[holes_].left = number;
  holes_ = number;
}

void Region::unlist(BlockNumber number) {
  const Block& block = blocks_[number];
  if (block.state == BlockState::free) {
    bins_.remove(blocks_, number);
    return;
  }
  if (block.right != kNoBlock) blocks_[block.right].left = block.left;
  if (block.left != kNoBlock) blocks_[block.left].right = block.right;
  if (holes_ == number) holes_ = block.right;
}

BlockNumber Region::isolate(BlockNumber number, Grains start, Grains size) {
  unlist(number);
  const Grains whole = blocks_[number].start;
  if (const Grains front = start - whole; front != 0) {
    const BlockNumber rest = split_unlisted(number, front);
    list(number);
    number = rest;
  }
  if (blocks_[number].size == size) return number;
  try {
    list(split(number, size));
  } catch (const std::bad_alloc&) {
    if (start != whole) {
      number = blocks_[number].before;
      unlist(number);
      swallow_next(number);
    }
    list(number);
    throw;
  }
  return number;
}

std::size_t Region::gap_from(BlockNumber hole, Gap& gap) const {
  BlockNumber first = hole;
  // Neither two free blocks nor two holes are neighbours. A gap is looked at once: from its first hole.
  if (const BlockNumber free = blocks_[hole].before; free != kNoBlock && blocks_[free].state == BlockState::free) {
    const BlockNumber below = blocks_[free].before;
    if (below != kNoBlock && blocks_[below].state == BlockState::hole) return 0;
    first = free;
  }
  std::size_t count = 0;
  for (BlockNumber at = first; at != kNoBlock && count < kLongestGap; at = blocks_[at].after) {
    if (blocks_[at].state != BlockState::free && blocks_[at].state != BlockState::hole) break;
    gap[count++] = at;
  }
  return count;
}

void Region::weigh(std::span<const BlockNumber> gap, std::size_t first, Grains start, Window& best) const {
  const Grains end = start + best.size;
  std::uint32_t missing = 0;
  for (std::size_t i = first; i < gap.size() && missing < best.missing; ++i) {
    const Block& block = blocks_[gap[i]];
    const Grains block_end = block.start + block.size;
    if (block.state == BlockState::hole)
      missing += (round_up(std::min(end, block_end)) - round_down(std::max(start, Grains{block.start}))) / kPageGrains;
    if (block_end < end) continue;
    if (missing < best.missing) best = Window{start, best.size, gap[first], missing};
    return;
  }
}

void Region::weigh_gap(BlockNumber hole, Window& best) const {
  Gap blocks;  // NOLINT(*-member-init): as much of it as is read is written
  const std::span gap(blocks.data(), gap_from(hole, blocks));
  if (gap.empty()) return;
  const Grains size = best.size;
  const Grains gap_start = blocks_[gap.front()].start;
  const Grains gap_end = blocks_[gap.back()].start + blocks_[gap.back()].size;
  if (gap_end - gap_start < size) return;
  std::size_t first = 0;
  for (std::size_t i = 0; i < gap.size(); ++i) {
    const Block& block = blocks_[gap[i]];
    // Of equal places, whole pages go to whole pages: when they are free again, they can move.
    if (const Grains start = round_up(block.start);
        size % kPageGrains == 0 && start < block.start + block.size && start + size <= gap_end)
      weigh(gap, i, start, best);
    if (gap_end - block.start >= size) weigh(gap, i, block.start, best);
    // The place that ends where this block ends.
    if (block.start + block.size - gap_start < size) continue;
    const Grains start = block.start + block.size - size;
    while (blocks_[gap[first]].start + blocks_[gap[first]].size <= start) ++first;
    weigh(gap, first, start, best);
  }
}

Window Region::cheapest_window(Grains size, bool thorough) const {
  Window best{.start = 0, .size = size, .first = kNoBlock, .missing = kImpossible};
  unsigned left = thorough ? ~0U : kHolesLookedAt;
  for (BlockNumber hole = holes_; hole != kNoBlock && left > 0; hole = blocks_[hole].right, --left)
    weigh_gap(hole, best);
  if (left == 0 && blocks_[highest_].state == BlockState::hole) weigh_gap(highest_, best);
  return best;
}

bool Region::widen(Window& window, std::uint32_t pages) const {
  const Grains end = window.start + window.size;
  const Grains mapped = static_cast<Grains>(handles_.size()) * kPageGrains;
  const Grains extra = pages * kPageGrains;
  // Beyond the last page that has ever had memory there is only the hole at the top.
  if (end < mapped || mapped + window.size + extra > total_) return false;
  window.size = round_up(end) + extra - window.start;
  window.missing += pages;
  return extra != 0;
}

BlockNumber Region::claim(const Window& window) {
  const Grains end = window.start + window.size;
  BlockNumber first = kNoBlock;
  for (BlockNumber at = window.first;; at = blocks_[at].after) {
    const Block& block = blocks_[at];
    const bool hole = block.state == BlockState::hole;
    Grains from = std::max(window.start, Grains{block.start});
    Grains to = std::min(end, block.start + block.size);
    if (hole) {
      from = round_down(from);
      to = round_up(to);
    }
    try {
      at = isolate(at, from, to - from);
    } catch (const std::bad_alloc&) {
      if (first != kNoBlock) unclaim(first, end);
      throw;
    }
    blocks_[at].state = hole ? BlockState::claimed_hole : BlockState::claimed;
    if (first == kNoBlock) first = at;
    if (to >= end) return first;
  }
}

BlockNumber Region::settle(BlockNumber first, const Window& window) {
  const Grains end = window.start + window.size;
  std::uint32_t epoch = blocks_[first].epoch;
  while (blocks_[first].start + blocks_[first].size < end) {
    epoch = std::max(epoch, blocks_[blocks_[first].after].epoch);
    swallow_next(first);
  }
  blocks_[first].epoch = epoch;
  BlockNumber taken = first;
  try {
    if (const Grains front = window.start - blocks_[first].start; front != 0) taken = split(first, front);
    if (blocks_[taken].size > window.size) give(split(taken, window.size), epoch);
  } catch (const std::bad_alloc&) {
    give(taken, epoch);
    if (taken != first) give(first, epoch);
    throw;
  }
  blocks_[taken].state = BlockState::live;
  if (taken != first) give(first, epoch);
  return taken;
}

void Region::unclaim(BlockNumber first, Grains end) {
  for (BlockNumber at = first; at != kNoBlock && blocks_[at].start < end;) {
    const BlockNumber after = blocks_[at].after;
    const BlockState state = blocks_[at].state;
    if (state == BlockState::claimed_hole) give_hole(at);
    if (state == BlockState::claimed) give(at, blocks_[at].epoch);
    at = after;
  }
}

IdlePages Region::whole_pieces(std::size_t first, std::size_t end, std::uint32_t pages, std::uint32_t largest) const {
  const auto fits = [&](std::size_t at) {
    const std::uint32_t piece = handles_[at].pages;
    return piece != 0 && piece <= largest && at + piece <= end;
  };
  // The others of a piece that begins before are none of its first pages.
  std::size_t begin = first;
  while (begin < end && !fits(begin)) ++begin;
  if (begin == end) return {};
  std::size_t at = begin;
  while (at < end && at - begin < pages && fits(at)) at += handles_[at].pages;
  return {kNoBlock, static_cast<Grains>(begin) * kPageGrains, static_cast<Grains>(at - begin) * kPageGrains};
}

std::vector<IdlePages> Region::idle_pages(std::uint32_t pages, std::uint32_t done_epoch, std::uint32_t largest) const {
  std::vector<IdlePages> result;
  std::uint32_t found = 0;
  for (unsigned bin = bins_.next(Bins::bin_of(kPageGrains)); bin != Bins::kNone; bin = bins_.next(bin + 1)) {
    for (BlockNumber at = bins_.head(bin); at != kNoBlock; at = blocks_[at].right) {
      const Block& block = blocks_[at];
      const Grains start = round_up(block.start);
      const Grains end = round_down(block.start + block.size);
      if (block.epoch > done_epoch || start >= end) continue;
      IdlePages run = whole_pieces(start / kPageGrains, end / kPageGrains, pages - found, largest);
      if (run.size == 0) continue;
      run.block = at;
      result.push_back(run);
      found += run.size / kPageGrains;
      if (found >= pages) return result;
    }
  }
  return result;
}

void Region::close(const IdlePages& run) {
  const BlockNumber closed = isolate(run.block, run.start, run.size);
  give_hole(closed);
}

void Region::give_hole(BlockNumber number) {
  blocks_[number].state = BlockState::hole;
  blocks_[number].epoch = 0;
  if (const BlockNumber after = blocks_[number].after; after != kNoBlock && blocks_[after].state == BlockState::hole) {
    unlist(after);
    swallow_next(number);
  }
  const BlockNumber before = blocks_[number].before;
  if (before != kNoBlock && blocks_[before].state == BlockState::hole) {
    swallow_next(before);
    return;
  }
  list(number);
}

Grains Region::largest_free() const {
  for (unsigned bin = Bins::kCount; bin-- > 0;) {
    Grains largest = 0;
    for (BlockNumber at = bins_.head(bin); at != kNoBlock; at = blocks_[at].right)
      largest = std::max(largest, blocks_[at].size);
    if (largest != 0) return largest;
  }
  return 0;
}

}  // namespace gpuwarden::memory
