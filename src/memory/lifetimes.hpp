// SPDX-License-Identifier: Apache-2.0
// How long blocks of each size class live, as observed: those that live briefly and those that last should not lie
// between each other, or the pages of what lasts stay half empty when the brief ones are gone.
#pragma once

#include <array>
#include <cstdint>

#include "memory/bins.hpp"

namespace gpuwarden::memory {

/// Ages in allocations of the stream. A class that nothing has left yet counts as lasting. Not safe to use from several
/// threads.
class Lifetimes {
 public:
  Lifetimes() { ages_.fill(kUnknown); }

  /// A block of that size was given back so many allocations after it was given out.
  void ended(Grains size, std::uint32_t age) {
    std::uint32_t& mean = ages_[Bins::bin_of(size)];
    mean = mean == kUnknown ? age : mean - mean / 4 + age / 4;
  }

  bool is_brief(Grains size) const { return ages_[Bins::bin_of(size)] < kBrief; }

 private:
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  /// Replays with 16 to 8192 differ little between 64 and 1024 (docs/memory.md).
  static constexpr std::uint32_t kBrief = 512;

  /// Of each class, a running mean in which the last block counts a quarter.
  std::array<std::uint32_t, Bins::kCount> ages_;
};

}  // namespace gpuwarden::memory
