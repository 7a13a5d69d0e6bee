// SPDX-License-Identifier: Apache-2.0
// Which devices together carry the best ring, as NCCL's collectives run: no faster than its slowest link. Exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuwarden::placement {

/// A set of devices by their numbers in a LinkGraph.
using DeviceSet = std::uint32_t;

/// What the link between each two of a few devices is worth, in any unit; 0: not known, or no link.
class LinkGraph {
 public:
  /// More than this many are not compared with each other: there are too many sets of them.
  static constexpr std::size_t kMost = 16;
  explicit LinkGraph(std::size_t devices) : size_(devices), worth_(devices * devices) {}
  std::size_t size() const { return size_; }
  double worth(std::size_t a, std::size_t b) const { return worth_[a * size_ + b]; }
  /// Both directions. One that is told twice, and differently, counts by the worse.
  void set(std::size_t a, std::size_t b, double worth);

 private:
  std::size_t size_;
  std::vector<double> worth_;
};

/// Sets that are equally good, with what they are good for.
struct BestSets {
  double slowest = -1;  ///< link of the best ring; below 0: there is no set
  double sum = 0;       ///< of that ring's links
  double left = 0;      ///< of the links among what is left over
  std::vector<DeviceSet> sets;
};

/// The sets of `count` devices that hold all of `fixed` and are the best: first by the slowest link of the best ring
/// through them, then by the sum of that ring's links, then by what the links among those that are left over (of
/// `free`) are worth together. Usually several; in no order. `fixed` is a part of `free`.
BestSets best_sets(const LinkGraph& graph, DeviceSet free, DeviceSet fixed, std::size_t count);

}  // namespace gpuwarden::placement
