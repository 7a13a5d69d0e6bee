// SPDX-License-Identifier: Apache-2.0
// What a lane did lately, a word for each operation: what it asked for, or how long ago what it gives back was asked
// for. One store and an addition on the common path.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// A recorded operation. Bits 0 to 39: the bytes that were asked for; an allocation is no more than that.
namespace word {
inline constexpr unsigned kDistanceShift = 40;
inline constexpr std::uint64_t kBytes = (std::uint64_t{1} << kDistanceShift) - 1;
/// Of a free: operations since the allocation, or more.
inline constexpr std::uint32_t kMostDistance = (1U << 22U) - 1;
inline constexpr std::uint64_t kDistance = std::uint64_t{kMostDistance} << kDistanceShift;
/// Of both: not to be planned, as it was aligned, or used on other streams.
inline constexpr std::uint64_t kApart = std::uint64_t{1} << 62U;
inline constexpr std::uint64_t kFree = std::uint64_t{1} << 63U;

constexpr bool is_free(std::uint64_t word) { return (word & kFree) != 0; }
constexpr std::uint64_t bytes(std::uint64_t word) { return word & kBytes; }
constexpr Grains grains(std::uint64_t word) { return memory::grains(Bytes(bytes(word))); }
constexpr std::uint32_t distance(std::uint64_t word) {
  return static_cast<std::uint32_t>((word & kDistance) >> kDistanceShift);
}
/// By how many grains live memory grows.
constexpr std::int64_t growth(std::uint64_t word) {
  // Without a branch: which it is cannot be guessed.
  const std::int64_t sign = -static_cast<std::int64_t>(word >> 63U);
  return (static_cast<std::int64_t>(grains(word)) ^ sign) - sign;
}
}  // namespace word

/// A ring of the last operations, numbered modulo 2^32. While it is switched off they go to a single word. Not safe to
/// use from several threads.
class StepTape {
 public:
  /// Operations; 8 bytes each.
  static constexpr std::uint32_t kLeast = 1U << 9U;
  static constexpr std::uint32_t kUsual = 1U << 15U;
  static constexpr std::uint32_t kMost = 1U << 18U;

  StepTape() = default;
  StepTape(const StepTape&) = delete;
  StepTape& operator=(const StepTape&) = delete;

  /// Whether somebody wants to be asked before the next operation.
  bool is_due() const { return static_cast<std::int32_t>(op_ - wake_) >= 0; }

  void allocated(Block& block, std::uint64_t bytes) {
    block.right = op_;
    ring_[op_++ & mask_] = bytes;
  }
  /// `apart`: word::kApart or 0.
  void freed(const Block& block, std::uint64_t apart) {
    const std::uint32_t distance = std::min(op_ - block.right, word::kMostDistance);
    const std::uint64_t bytes = (std::uint64_t{block.size} << kGrainShift) - block.left;
    ring_[op_++ & mask_] = word::kFree | apart | std::uint64_t{distance} << word::kDistanceShift | bytes;
  }
  /// The last operation is not to be planned.
  void set_apart() { ring_[(op_ - 1) & mask_] |= word::kApart; }

  /// The number of the next operation.
  std::uint32_t op() const { return op_; }
  void wake_at(std::uint32_t op) { wake_ = op; }
  bool is_on() const { return ring_ != &scrap_; }
  std::uint32_t capacity() const { return capacity_; }
  std::uint64_t& operator[](std::uint32_t op) { return words_[op & (capacity() - 1)]; }
  /// Whether `count` operations from `a` and `b` on are alike, distances aside.
  bool is_alike(std::uint32_t a, std::uint32_t b, std::uint32_t count) const {
    const std::uint32_t mask = capacity() - 1;
    std::uint64_t differences = 0;
    if ((a & mask) + count <= capacity() && (b & mask) + count <= capacity()) [[likely]] {
      const std::uint64_t* const left = &words_[a & mask];
      const std::uint64_t* const right = &words_[b & mask];
      for (std::uint32_t i = 0; i < count; ++i) differences |= left[i] ^ right[i];
    } else {
      for (std::uint32_t i = 0; i < count; ++i) differences |= (*this)[a + i] ^ (*this)[b + i];
    }
    return (differences & ~word::kDistance) == 0;
  }
  std::uint64_t operator[](std::uint32_t op) const { return words_[op & (capacity() - 1)]; }
  std::size_t bytes() const { return capacity_ * sizeof(std::uint64_t); }

  /// Goes on with operation `op`; what was recorded before stays.
  void switch_on(std::uint32_t op) {
    op_ = op;
    ring_ = words_.get();
    mask_ = capacity() - 1;
  }
  /// Somebody is asked before each operation from `op` on.
  void switch_off(std::uint32_t op) {
    op_ = wake_ = op;
    ring_ = &scrap_;
    mask_ = 0;
  }
  /// Nothing is recorded up to operation `op`.
  void pause(std::uint32_t op) {
    wake_ = op;
    ring_ = &scrap_;
    mask_ = 0;
  }
  /// Room for so many operations, a power of two; those recorded last stay.
  void grow(std::uint32_t capacity) {
    // Memory that is not written to is none yet: the usual room is taken at once, and nothing moves into the other half
    // of it that was recorded before the ring was full.
    const std::uint32_t room = std::max(capacity, kUsual);
    auto words = room > room_ ? std::make_unique_for_overwrite<std::uint64_t[]>(room) : nullptr;
    std::uint64_t* const target = words != nullptr ? words.get() : words_.get();
    for (std::uint32_t op = op_ - capacity_; op != op_; ++op) target[op & (capacity - 1)] = (*this)[op];
    if (words != nullptr) words_ = std::move(words);
    room_ = std::max(room, room_);
    capacity_ = capacity;
    switch_on(op_);
  }

 private:
  std::uint64_t* ring_ = &scrap_;
  std::uint32_t mask_ = 0;
  std::uint32_t op_ = 0;
  std::uint32_t wake_ = 0;
  std::uint64_t scrap_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t room_ = 0;
  std::unique_ptr<std::uint64_t[]> words_;
};

}  // namespace gpuwarden::memory
