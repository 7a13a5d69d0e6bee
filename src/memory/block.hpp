// SPDX-License-Identifier: Apache-2.0
// The nodes that describe device memory: out of line, 32 bytes each, addressed by number so that they may move when
// their array grows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "gpuwarden/memory/types.hpp"
#include "memory/locks.hpp"
#include "memory/relaxed.hpp"

namespace gpuwarden::memory {

/// A count of grains (512 bytes), or a place in a region in grains from its start.
using Grains = std::uint32_t;
/// The number of a block in its region.
using BlockNumber = std::uint32_t;

inline constexpr BlockNumber kNoBlock = ~BlockNumber{0};
inline constexpr unsigned kGrainShift = 9;
inline constexpr Grains kPageGrains = static_cast<Grains>(kPage.value >> kGrainShift);

/// The least count of grains that holds `size`.
constexpr Grains grains(Bytes size) { return static_cast<Grains>((size.value + kGrain.value - 1) >> kGrainShift); }
constexpr Bytes bytes(std::uint64_t count) { return Bytes(count << kGrainShift); }

enum class BlockState : std::uint8_t {
  released,      ///< the node is not in use
  free,          ///< memory that may be given out; in a bin
  hole,          ///< address space without memory; whole pages; in the list of holes
  live,          ///< given out
  shared,        ///< given out, and used on other streams than its own, too
  cached,        ///< given back, in a quick list, not merged
  foreign,       ///< given back on another stream than the region's
  planned,       ///< taken by a learned step, which gives out parts of it
  left,          ///< given back by another thread, in the lane's inbox; counted as live until it is taken over
  claimed,       ///< free, in no list: part of a window that is being made ready
  claimed_hole,  ///< the same without memory
};

constexpr bool is_given_out(BlockState state) {
  return state == BlockState::live || state == BlockState::shared || state == BlockState::left;
}

/// What is Relaxed is read by threads that give a live block back without the lane's lock (Lane::leave); its size and
/// what was asked for do not change as long as it is live.
struct Block {
  Relaxed<Grains> start;
  Grains size;
  BlockNumber before;          ///< neighbour at lower addresses
  Relaxed<BlockNumber> after;  ///< neighbour at higher addresses; of a released node, the next released one
  BlockNumber left;            ///< in lists; of a live block, the bytes that were not asked for
  BlockNumber right;           ///< of a live block, the number of the operation that asked for it (steps/tape.hpp)
  std::uint32_t epoch;         ///< of the last use: the work submitted before this epoch's event
  std::uint16_t user;          ///< lane of the stream on which a foreign block was given back; of a free block, its bin
  Relaxed<BlockState> state;
};
static_assert(sizeof(Block) == 32);

/// Those who read without the owner's lock hold a gate meanwhile; the owner holds it while arrays move.
class MovingArrays {
 public:
  explicit MovingArrays(BiasedLock* gate) : gate_(gate) {
    if (gate_ != nullptr) gate_->lock_in_passing();
  }
  MovingArrays(const MovingArrays&) = delete;
  MovingArrays& operator=(const MovingArrays&) = delete;
  ~MovingArrays() {
    if (gate_ != nullptr) gate_->unlock();
  }

 private:
  BiasedLock* gate_;
};

/// A region's nodes. Not safe to use from several threads, but for reading Relaxed fields behind `gate`.
class BlockTable {
 public:
  explicit BlockTable(BiasedLock* gate = nullptr) : gate_(gate) {}
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable() { std::free(static_cast<void*>(blocks_)); }

  Block& operator[](BlockNumber number) { return blocks_[number]; }
  const Block& operator[](BlockNumber number) const { return blocks_[number]; }
  BlockNumber size() const { return used_; }
  /// What has been touched; the rest of the array is address space only.
  std::size_t bytes() const { return std::size_t{used_} * sizeof(Block); }

  /// So many more can be made without memory.
  void prepare(BlockNumber count) {
    while (capacity_ - used_ < count) grow();
  }
  BlockNumber make() {
    if (released_ != kNoBlock) {
      const BlockNumber number = released_;
      released_ = blocks_[number].after;
      return number;
    }
    if (used_ == capacity_) grow();
    return used_++;
  }

  void release(BlockNumber number) {
    blocks_[number].state = BlockState::released;
    blocks_[number].start = ~Grains{0};  // so that whoever comes past it takes it for nothing
    blocks_[number].after = released_;
    released_ = number;
  }

 private:
  void grow() {
    const MovingArrays moving(gate_);
    const BlockNumber capacity = capacity_ < 256 ? 256 : capacity_ + capacity_ / 2;
    // realloc moves large arrays by remapping them, without copying.
    void* const grown = std::realloc(static_cast<void*>(blocks_), std::size_t{capacity} * sizeof(Block));
    if (grown == nullptr) throw std::bad_alloc();
    blocks_ = static_cast<Block*>(grown);
    capacity_ = capacity;
  }

  BiasedLock* gate_;
  Block* blocks_ = nullptr;
  BlockNumber capacity_ = 0;
  // Not beside what is read without the lock:
  alignas(64) BlockNumber used_ = 0;
  BlockNumber released_ = kNoBlock;
};

}  // namespace gpuwarden::memory
