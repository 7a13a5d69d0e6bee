// SPDX-License-Identifier: Apache-2.0
// Tells whether a workload repeats itself, from the requests that found no free block.
#pragma once

#include <array>
#include <cstdint>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// A step of a training run fills memory and empties it again: such a rise and fall is a cycle. A workload repeats if
/// the sizes that miss have all missed in earlier cycles; then pages should stay where they are wanted each time, and a
/// little more memory saves moving them in every step. Lengths that vary bring new sizes, and moving is right.
class MissHistory {
 public:
  /// A request missed while `live` grains were live, and there had been only `low` in between.
  void miss(Grains size, std::uint64_t live, std::uint64_t low) {
    if (low < live - live / 10) ++cycle_;
    Entry& entry = entries_[(size * 0x9E3779B1U) >> (32 - kBits)];
    if (entry.size != size) {
      repeated_ = 0;
    } else if (entry.cycle < cycle_) {
      ++repeated_;
    }
    entry = {size, cycle_};
  }

  /// How sure that is: 0 not, 1 rather, 2 quite.
  unsigned certainty() const { return repeated_ >= kSure ? 2 : (repeated_ >= kConvincing ? 1 : 0); }

 private:
  static constexpr unsigned kBits = 9;
  /// So many sizes have missed again since the last new one.
  static constexpr unsigned kConvincing = 12;
  static constexpr unsigned kSure = 48;
  struct Entry {
    Grains size = 0;
    std::uint32_t cycle = 0;  ///< of its last miss
  };

  std::array<Entry, 1U << kBits> entries_{};
  std::uint32_t cycle_ = 1;
  unsigned repeated_ = 0;
};

}  // namespace gpuwarden::memory
