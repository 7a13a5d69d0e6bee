// SPDX-License-Identifier: Apache-2.0
// Free blocks by size, as TLSF keeps them (Masmano et al., "TLSF: a new dynamic memory allocator for real-time
// systems", ECRTS 2004): 32 classes for each power of two, a bitmap over them, and a list in each.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "gpuwarden/memory/strategy.hpp"
#include "memory/block.hpp"

namespace gpuwarden::memory {

/// The free blocks of a region. Not safe to use from several threads.
class Bins {
 public:
  static constexpr unsigned kClasses = 32;
  static constexpr unsigned kCount = kClasses * 28;
  static constexpr unsigned kNone = kCount;

  Bins() { heads_.fill(kNoBlock); }

  /// The class of a size: exact below 32 grains, then within 1/32.
  static unsigned bin_of(Grains size) {
    if (size < kClasses) return size;
    const unsigned log = static_cast<unsigned>(std::bit_width(size)) - 1;
    return (log - 4) * kClasses + ((size >> (log - 5)) & (kClasses - 1));
  }

  BlockNumber head(unsigned bin) const { return heads_[bin]; }

  void insert(BlockTable& blocks, BlockNumber number) {
    Block& block = blocks[number];
    const unsigned bin = bin_of(block.size);
    block.user = static_cast<std::uint16_t>(bin);
    BlockNumber right = heads_[bin];
    BlockNumber left = kNoBlock;
    // The lower address goes first, so that what lies high may become free as a whole.
    if (right != kNoBlock && blocks[right].start < block.start) {
      left = right;
      right = blocks[left].right;
    }
    block.left = left;
    block.right = right;
    if (right != kNoBlock) blocks[right].left = number;
    if (left != kNoBlock) {
      blocks[left].right = number;
      return;
    }
    heads_[bin] = number;
    words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
    summary_ |= 1U << (bin / 64);
  }

  void remove(BlockTable& blocks, BlockNumber number) {
    const Block& block = blocks[number];
    if (block.right != kNoBlock) blocks[block.right].left = block.left;
    if (block.left != kNoBlock) {
      blocks[block.left].right = block.right;
      return;
    }
    const unsigned bin = block.user;
    heads_[bin] = block.right;
    if (block.right != kNoBlock) return;
    words_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
    if (words_[bin / 64] == 0) summary_ &= ~(1U << (bin / 64));
  }

  /// The first class from `bin` on that has a block; kNone without.
  unsigned next(unsigned bin) const {
    if (bin >= kCount) return kNone;
    const unsigned word = bin / 64;
    const std::uint64_t here = words_[word] & (~std::uint64_t{0} << (bin % 64));
    if (here != 0) return word * 64 + static_cast<unsigned>(std::countr_zero(here));
    const std::uint32_t later = summary_ & (~std::uint32_t{1} << word);
    if (later == 0) return kNone;
    const auto found = static_cast<unsigned>(std::countr_zero(later));
    return found * 64 + static_cast<unsigned>(std::countr_zero(words_[found]));
  }

  /// A block of at least `size` by the strategy's rule, or kNoBlock.
  BlockNumber find(const BlockTable& blocks, Grains size, const FitRule& rule) const {
    const unsigned own = bin_of(size);
    const BlockNumber best = choose(blocks, heads_[own], size, rule.own_class_scan, rule.order);
    if (best != kNoBlock) return best;
    const unsigned later = next(own + 1);
    if (later == kNone) return kNoBlock;
    if (rule.order == FitOrder::first) return heads_[later];
    return choose(blocks, heads_[later], size, rule.next_class_scan, rule.order);
  }

 private:
  /// The best of the first `scan` blocks of a list.
  static BlockNumber choose(const BlockTable& blocks, BlockNumber at, Grains size, unsigned scan, FitOrder order) {
    BlockNumber best = kNoBlock;
    for (; at != kNoBlock && scan > 0; at = blocks[at].right, --scan) {
      const Block& block = blocks[at];
      if (block.size < size) continue;
      if (order == FitOrder::first) return at;
      if (best == kNoBlock || is_better(block, blocks[best], order)) best = at;
    }
    return best;
  }

  static bool is_better(const Block& a, const Block& b, FitOrder order) {
    if (order == FitOrder::smallest && a.size != b.size) return a.size < b.size;
    return a.start < b.start;
  }

  std::array<std::uint64_t, kCount / 64> words_{};
  std::uint32_t summary_ = 0;
  std::array<BlockNumber, kCount> heads_;
};

}  // namespace gpuwarden::memory
