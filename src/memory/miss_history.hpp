// SPDX-License-Identifier: Apache-2.0
// Tells whether a workload repeats itself, from the requests that found no free block.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "memory/block.hpp"

namespace gpuwarden::memory {

/// A workload repeats itself if only sizes miss that the last few cycles asked for, too; then pages should stay where
/// they are wanted each time, and a little more memory saves moving them in every step. Where lengths vary, moving is
/// right.
class MissHistory {
 public:
  /// A request was not met from a quick list.
  void request(Grains size) {
    Entry& entry = entry_of(size);
    if (entry.size != size) {
      entry = {size, cycle_, false};
    } else if (entry.cycle != cycle_) {
      entry.recent = cycle_ - entry.cycle <= kRecent;
      entry.cycle = cycle_;
    }
  }

  /// It found no free block, either.
  void miss(Grains size) {
    const Entry& entry = entry_of(size);
    ++(entry.size == size && entry.recent ? misses_ : strange_);
  }

  /// A cycle ends; if requests have missed in it, and all of them for such sizes: in how many cycles in a row, or 0.
  unsigned end_cycle() {
    const bool missed = strange_ == 0 && misses_ != 0;
    repeats_ = strange_ == 0 ? repeats_ + (missed ? 1 : 0) : 0;
    ++cycle_;
    misses_ = 0;
    strange_ = 0;
    return missed ? repeats_ : 0;
  }

  /// The same with the present cycle as it is.
  unsigned repeats() const { return strange_ == 0 && misses_ != 0 ? repeats_ + 1 : 0; }

 private:
  static constexpr unsigned kBits = 9;
  static constexpr std::uint32_t kRecent = 4;  ///< cycles
  struct Entry {
    Grains size = 0;
    std::uint32_t cycle = 0;  ///< that asked for it last
    bool recent = false;      ///< whether one shortly before had, too
  };

  /// Of two neighbours the one that has the size, or the one that may be given up.
  Entry& entry_of(Grains size) {
    Entry* const first = &entries_[(size * 0x9E3779B1U) >> (32 - kBits)];
    Entry* const second = &entries_[static_cast<std::size_t>(first - entries_.data()) ^ 1U];
    if (first->size == size) return *first;
    return second->size == size || second->cycle < first->cycle ? *second : *first;
  }

  std::array<Entry, 1U << kBits> entries_{};
  std::uint32_t cycle_ = 1;
  unsigned repeats_ = 0;
  unsigned misses_ = 0;   ///< in this cycle
  unsigned strange_ = 0;  ///< misses of sizes that were not asked for lately
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
  static constexpr Limits kRandom{128, 8};
  static constexpr Limits kKnown{4, 64};
  static constexpr std::uint64_t kStep = 60;

  std::uint64_t last_ = 0;
  std::uint64_t level_ = 0;
  std::uint64_t permille_ = 0;
};

/// Whether cycles have about as many allocations each time, as steps of a training have, whatever their sizes.
class CycleLengths {
 public:
  /// A cycle ends, after so many allocations in all.
  void end(std::uint64_t allocations) {
    const std::uint64_t length = allocations - std::exchange(begun_, allocations);
    const std::uint64_t before = std::exchange(length_, length);
    alike_ = std::max(length, before) - std::min(length, before) <= length / 8;
  }
  bool are_alike() const { return alike_; }

 private:
  std::uint64_t begun_ = 0;
  std::uint64_t length_ = 0;
  bool alike_ = false;
};

/// What moving pages has cost, in pages, so that memory is grown rather than moved for ever: a page that was moved
/// could have been made for about as much. Behind the slow lock.
class Swings {
 public:
  /// So many pages had to move, after so many allocations of a stream in all; the peak of live memory has `peak` pages.
  void moved(std::uint64_t pages, std::uint64_t allocations, std::uint64_t peak) {
    const std::uint64_t passed = allocations - std::min(allocations, std::exchange(last_, allocations));
    level_ = level_ - std::min(level_, passed / kBearable) + pages;
    const std::uint64_t first = peak / kFirst;
    if (level_ <= first) return;
    pages_ = std::max(pages_, std::min(pages_ + level_ - first, peak * kMostPermille / 1000));
    level_ = first;
  }
  /// So many pages above the peak of live memory are worth having.
  std::uint64_t pages() const { return pages_; }

 private:
  static constexpr std::uint64_t kBearable = 4096;  ///< allocations for a page
  static constexpr std::uint64_t kFirst = 10;       ///< this part of the peak may move before it counts
  static constexpr std::uint64_t kMostPermille = 30;

  std::uint64_t last_ = 0;
  std::uint64_t level_ = 0;
  std::uint64_t pages_ = 0;
};

}  // namespace gpuwarden::memory
