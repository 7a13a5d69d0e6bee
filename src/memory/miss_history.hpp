// SPDX-License-Identifier: Apache-2.0
// Tells whether a workload repeats itself, from the requests that found no free block.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// A workload repeats itself if each cycle asks for sizes that an earlier one asked for; then pages should stay where
/// they are wanted each time, and a little more memory saves moving them in every step. Lengths that vary bring new
/// sizes, and moving is right.
class MissHistory {
 public:
  /// A request was for a size that has no quick list.
  void see(Grains size, std::uint32_t cycle) {
    begin(cycle);
    Entry* entry = &entries_[(size * 0x9E3779B1U) >> (32 - kBits)];
    if (entry->size != size) entry = &entries_[static_cast<std::size_t>(entry - entries_.data()) ^ 1U];
    if (entry->size == size) return;
    *entry = {size, cycle};
    ++fresh_;
  }

  /// A request found no free block.
  void miss(std::uint32_t cycle) {
    begin(cycle);
    ++misses_;
  }

  /// In how many cycles requests have missed although all sizes were known.
  unsigned repeats() const { return repeats_; }

 private:
  static constexpr unsigned kBits = 10;
  struct Entry {
    Grains size = 0;
    std::uint32_t cycle = 0;  ///< when it was first seen
  };

  void begin(std::uint32_t cycle) {
    if (cycle == cycle_) return;
    if (fresh_ > kFewFresh) {
      repeats_ = 0;
    } else if (misses_ != 0) {
      ++repeats_;
    }
    cycle_ = cycle;
    fresh_ = 0;
    misses_ = 0;
  }

  /// So many new sizes a cycle do not change the picture.
  static constexpr unsigned kFewFresh = 4;

  std::array<Entry, 1U << kBits> entries_{};
  std::uint32_t cycle_ = 0;
  unsigned repeats_ = 0;
  unsigned misses_ = 0;  ///< in this cycle
  unsigned fresh_ = kFewFresh + 1;
};

/// Notices that pages would have to move every few allocations, as under random requests: then memory is grown instead,
/// a step further each time that it goes on. A bucket that fills with each move and leaks with each allocation.
class Shortage {
 public:
  /// Pages had to move, after so many allocations in all.
  void happened(std::uint64_t allocations) {
    const std::uint64_t leaked = (allocations - std::exchange(last_, allocations)) / kBearable;
    level_ = level_ > leaked ? level_ - leaked + 1 : 1;
    if (level_ < kBurst) return;
    level_ = kBurst / 2;
    permille_ += permille_ / 2 + kStep;
  }

  /// How far above the peak of live memory growing is better than moving, in thousandths.
  std::uint64_t permille() const { return permille_; }

 private:
  static constexpr std::uint64_t kBearable = 32;  ///< allocations for a move
  static constexpr std::uint64_t kBurst = 48;
  static constexpr std::uint64_t kStep = 30;

  std::uint64_t last_ = 0;
  std::uint64_t level_ = 0;
  std::uint64_t permille_ = 0;
};

}  // namespace gpuwarden::memory
