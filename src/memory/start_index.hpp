// SPDX-License-Identifier: Apache-2.0
// Finds the block that begins at a place: open addressing with linear probing, 8 bytes an entry, no tombstones.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// From a block's start to its number; a start is below 2^32 - 1. Not safe to use from several threads, but for find()
/// behind `gate`, which then may miss a block that is there.
class StartIndex {
 public:
  explicit StartIndex(BiasedLock* gate = nullptr) : gate_(gate), entries_(kLeast, kEmpty) {}

  BlockNumber find(Grains start) const {
    for (std::size_t at = home(start);; at = (at + 1) & mask_) {
      const std::uint64_t entry = entries_[at];
      if (static_cast<Grains>(entry >> 32U) == start) return static_cast<BlockNumber>(entry);
      if (entry == kEmpty) return kNoBlock;
    }
  }

  /// `start` is not in the index yet; without memory for it (std::bad_alloc) nothing changes.
  void insert(Grains start, BlockNumber number) {
    if (count_ + 1 > entries_.size() / 8 * 5) grow();
    ++count_;
    place(entry_of(start, number));
  }

  /// `start` is in the index.
  void erase(Grains start) {
    std::size_t gap = home(start);
    while (static_cast<Grains>(entries_[gap] >> 32U) != start) gap = (gap + 1) & mask_;
    // Entries behind the gap move into it unless they would come to stand before their home.
    for (std::size_t at = (gap + 1) & mask_; entries_[at] != kEmpty; at = (at + 1) & mask_) {
      const std::size_t wanted = home(static_cast<Grains>(entries_[at] >> 32U));
      if (((at - wanted) & mask_) < ((at - gap) & mask_)) continue;
      entries_[gap].publish(entries_[at]);
      gap = at;
    }
    entries_[gap] = kEmpty;
    --count_;
  }

  std::size_t bytes() const { return entries_.size() * sizeof(std::uint64_t); }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static constexpr std::size_t kLeast = 256;

  static std::uint64_t entry_of(Grains start, BlockNumber number) {
    return (static_cast<std::uint64_t>(start) << 32U) | number;
  }
  std::size_t home(Grains start) const { return (start * 0x9E3779B1U) >> shift_; }

  void place(std::uint64_t entry) {
    std::size_t at = home(static_cast<Grains>(entry >> 32U));
    while (entries_[at] != kEmpty) at = (at + 1) & mask_;
    entries_[at].publish(entry);
  }

  void grow() {
    const MovingArrays moving(gate_);
    std::vector<Relaxed<std::uint64_t>> old(entries_.size() * 2, kEmpty);
    old.swap(entries_);
    mask_ = entries_.size() - 1;
    shift_ = 32U - static_cast<unsigned>(std::countr_zero(entries_.size()));
    for (const std::uint64_t entry : old) {
      if (entry != kEmpty) place(entry);
    }
  }

  BiasedLock* gate_;
  std::vector<Relaxed<std::uint64_t>> entries_;
  std::size_t mask_ = kLeast - 1;
  unsigned shift_ = 32U - 8U;
  // Not beside what is read without the lock:
  alignas(64) std::size_t count_ = 0;
};

}  // namespace gpuwarden::memory
