// SPDX-License-Identifier: Apache-2.0
// Where threads leave blocks that they give back while a lane's lock is another's: a ring, written behind a gate that
// favours the thread which comes first, and read behind the lane's lock. So neither side waits for the other, and a
// pair of threads of which one allocates and the other gives back needs no atomic read-modify-write.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "memory/block.hpp"
#include "memory/locks.hpp"
#include "memory/relaxed.hpp"

namespace gpuwarden::memory {

/// The blocks of one lane that wait to be taken over.
class Inbox {
 public:
  /// Held while a block is looked up and left here; and by the lane's owner while arrays move that such a look-up
  /// reads. Who holds it takes no other lock.
  BiasedLock gate{BiasedLock::Favours::first_comer};

  /// Behind the gate: whether it must be emptied, behind the lane's lock, before there is room again.
  bool is_full() const { return put_ - taken_.load(std::memory_order_acquire) == capacity_; }

  /// Behind the gate, when it is not full: a block of `size`.
  void put(unsigned region, BlockNumber number, Grains size) {
    const std::uint32_t at = put_.load(std::memory_order_relaxed);
    ring_[at & (capacity_ - 1)] = number << 1U | region;
    put_grains_ += size;
    put_.store(at + 1, std::memory_order_release);
  }

  /// Behind the lane's lock: whether something waits, at a glance.
  bool has_any() const { return put_.load(std::memory_order_relaxed) != taken_.load(std::memory_order_relaxed); }

  /// Behind the lane's lock: `prepare(region, number)` for each block that waits a little before `take(region,
  /// number)`, which tells its size.
  template <class Prepare, class Take>
  void empty(Prepare prepare, Take take) {
    const std::uint32_t end = put_.load(std::memory_order_acquire);
    std::uint32_t at = taken_.load(std::memory_order_relaxed);
    std::uint32_t prepared = at;
    std::uint64_t grains = 0;
    for (; at != end; ++at) {
      for (; prepared != end && prepared - at < kAhead; ++prepared) {
        const std::uint32_t entry = ring_[prepared & (capacity_ - 1)];
        prepare(entry & 1U, entry >> 1U);
      }
      const std::uint32_t entry = ring_[at & (capacity_ - 1)];
      grains += take(entry & 1U, entry >> 1U);
    }
    taken_grains_ += grains;
    taken_.store(end, std::memory_order_release);
  }

  /// Behind the lane's lock and the gate, when it is empty: room for more from now on, if the host has it.
  void grow() {
    if (capacity_ == kMost) return;
    const std::uint32_t capacity = capacity_ == 0 ? kLeast : 2 * capacity_;
    std::unique_ptr<Relaxed<std::uint32_t>[]> ring(new (std::nothrow) Relaxed<std::uint32_t>[capacity]);
    if (ring == nullptr) return;
    ring_ = std::move(ring);
    capacity_ = capacity;
  }

  /// About how many grains wait; without any lock.
  std::uint64_t grains() const {
    const std::uint64_t taken = taken_grains_;
    return std::max<std::uint64_t>(put_grains_, taken) - taken;
  }
  std::size_t bytes() const { return capacity_ * sizeof(std::uint32_t); }

 private:
  static constexpr std::uint32_t kLeast = 1024;
  static constexpr std::uint32_t kMost = 1U << 16U;
  static constexpr std::uint32_t kAhead = 8;

  // The gate's side.
  alignas(64) std::atomic<std::uint32_t> put_ = 0;  ///< since the beginning
  Relaxed<std::uint64_t> put_grains_ = 0;
  // The lane's side.
  alignas(64) std::atomic<std::uint32_t> taken_ = 0;
  Relaxed<std::uint64_t> taken_grains_ = 0;
  // Changed behind both.
  alignas(64) std::uint32_t capacity_ = 0;  ///< a power of two, or 0
  std::unique_ptr<Relaxed<std::uint32_t>[]> ring_;
};

}  // namespace gpuwarden::memory
