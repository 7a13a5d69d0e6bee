// SPDX-License-Identifier: Apache-2.0
// Tells whether a workload repeats itself, from the requests that found no free block.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// A workload repeats if the sizes that miss have all missed in earlier cycles; then pages should stay where they are
/// wanted each time, and a little more memory saves moving them in every step. Lengths that vary bring new sizes, and
/// moving is right.
class MissHistory {
 public:
  /// A request missed in that cycle.
  void miss(Grains size, std::uint32_t cycle) {
    Entry& entry = entries_[(size * 0x9E3779B1U) >> (32 - kBits)];
    if (entry.size != size) {
      repeated_ = 0;
    } else if (entry.cycle < cycle) {
      ++repeated_;
    }
    entry = {size, cycle};
  }

  /// How sure that is: 0 not, 1 rather, 2 quite.
  unsigned certainty() const { return repeated_ >= kSure ? 2 : (repeated_ >= kConvincing ? 1 : 0); }

 private:
  static constexpr unsigned kBits = 9;
  /// So many sizes have missed again since the last new one.
  static constexpr unsigned kConvincing = 3;
  static constexpr unsigned kSure = 48;
  struct Entry {
    Grains size = 0;
    std::uint32_t cycle = 0;  ///< of its last miss
  };

  std::array<Entry, 1U << kBits> entries_{};
  unsigned repeated_ = 0;
};

/// Notices that pages would have to move every few allocations, as under random requests: then memory is grown instead,
/// a step further each time that it goes on. A bucket that fills with each shortage and leaks with each allocation.
class Shortage {
 public:
  /// Pages would have to move, after so many allocations in all.
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
  static constexpr std::uint64_t kBearable = 64;  ///< allocations for a shortage
  static constexpr std::uint64_t kBurst = 32;
  static constexpr std::uint64_t kStep = 30;

  std::uint64_t last_ = 0;
  std::uint64_t level_ = 0;
  std::uint64_t permille_ = 0;
};

}  // namespace gpuwarden::memory
