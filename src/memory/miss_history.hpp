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
  /// A request was not met from a quick list.
  void request() { ++requests_; }

  /// Its size has no quick list, either.
  void see(Grains size) {
    Grains* known = &sizes_[(size * 0x9E3779B1U) >> (32 - kBits)];
    if (*known != size) known = &sizes_[static_cast<std::size_t>(known - sizes_.data()) ^ 1U];
    if (*known == size) return;
    *known = size;
    ++fresh_;
  }

  /// A request found no free block.
  void miss() { ++misses_; }

  /// A cycle ends; whether requests have missed in it although their sizes were known.
  bool end_cycle() {
    const bool known = fresh_ <= kFewFresh;
    const bool missed = known && misses_ != 0;
    repeats_ = known ? repeats_ + (missed ? 1 : 0) : 0;
    fresh_ = 0;
    misses_ = 0;
    requests_ = 0;
    return missed;
  }

  /// In how many cycles that has happened since sizes were new last; the present one counts once it has shown itself.
  unsigned repeats() const { return repeats_ + (fresh_ <= kFewFresh && requests_ >= kTelling ? 1 : 0); }

 private:
  static constexpr unsigned kBits = 10;
  /// So many new sizes a cycle do not change the picture.
  static constexpr unsigned kFewFresh = 4;
  /// So many requests show whether a cycle asks for new sizes.
  static constexpr unsigned kTelling = 64;

  std::array<Grains, 1U << kBits> sizes_{};
  unsigned repeats_ = 0;
  unsigned requests_ = 0;  ///< in this cycle, as are the next two
  unsigned misses_ = 0;
  unsigned fresh_ = 0;  ///< sizes that were new
};

/// Notices that pages move every few allocations, as under random requests: then memory is grown instead, a step
/// further each time that it goes on. A bucket that fills with each move and leaks with each allocation.
class Shortage {
 public:
  /// Pages had to move, after so many allocations in all. Where sizes come back, a step with many moves is no sign yet.
  void happened(std::uint64_t allocations, bool sizes_come_back) {
    const Limits& limits = sizes_come_back ? kKnown : kRandom;
    const std::uint64_t leaked = (allocations - std::exchange(last_, allocations)) / limits.bearable;
    level_ = level_ > leaked ? level_ - leaked + 1 : 1;
    if (level_ < limits.burst) return;
    level_ = limits.burst / 2;
    permille_ += permille_ / 2 + kStep;
  }

  /// The requests are not random after all.
  void forget() { permille_ = 0; }

  /// How far above the peak of live memory growing is better than moving, in thousandths.
  std::uint64_t permille() const { return permille_; }

 private:
  struct Limits {
    std::uint64_t bearable;  ///< allocations for a move
    std::uint64_t burst;     ///< moves
  };
  static constexpr Limits kRandom{64, 8};
  static constexpr Limits kKnown{4, 64};
  static constexpr std::uint64_t kStep = 60;

  std::uint64_t last_ = 0;
  std::uint64_t level_ = 0;
  std::uint64_t permille_ = 0;
};

}  // namespace gpuwarden::memory
