// SPDX-License-Identifier: Apache-2.0
// Finds the block that begins at a place where blocks are large: the first block that begins in each page, and from
// there along the neighbours.
#pragma once

#include <algorithm>
#include <vector>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// From a block's start to its number. Not safe to use from several threads, but for find() behind `gate`, which then
/// may miss a block that is there.
class PageIndex {
 public:
  explicit PageIndex(BiasedLock* gate = nullptr) : gate_(gate) {}

  BlockNumber find(const BlockTable& blocks, Grains start) const {
    const std::size_t page = start / kPageGrains;
    if (page >= first_.size()) [[unlikely]]
      return kNoBlock;
    for (BlockNumber at = first_[page]; at != kNoBlock; at = blocks[at].after) {
      if (blocks[at].start >= start) return blocks[at].start == start ? at : kNoBlock;
    }
    return kNoBlock;
  }

  /// Blocks that begin below `end` can be inserted without memory.
  void prepare(Grains end) {
    const std::size_t pages = end / kPageGrains + 1;
    if (pages > first_.size()) grow(pages);
  }
  /// The block's neighbours are what they will be; without memory for it (std::bad_alloc) nothing changes.
  void insert(const BlockTable& blocks, BlockNumber number) {
    const Block& block = blocks[number];
    const std::size_t page = block.start / kPageGrains;
    if (block.before != kNoBlock && blocks[block.before].start / kPageGrains == page) return;
    if (page >= first_.size()) [[unlikely]]
      grow(page);
    first_[page].publish(number);
  }

  /// The block's neighbours are still what they were.
  void erase(const BlockTable& blocks, BlockNumber number) {
    const Block& block = blocks[number];
    Relaxed<BlockNumber>& first = first_[block.start / kPageGrains];
    if (first != number) return;
    const bool shared = block.after != kNoBlock && blocks[block.after].start / kPageGrains == block.start / kPageGrains;
    first.publish(shared ? BlockNumber{block.after} : kNoBlock);
  }

  std::size_t bytes() const { return first_.size() * sizeof(BlockNumber); }

 private:
  void grow(std::size_t page) {
    const MovingArrays moving(gate_);
    first_.resize(std::max<std::size_t>(page + page / 2, 64) + 1, kNoBlock);
  }

  BiasedLock* gate_;
  std::vector<Relaxed<BlockNumber>> first_;
};

}  // namespace gpuwarden::memory
