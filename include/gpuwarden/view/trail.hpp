// SPDX-License-Identifier: Apache-2.0
// What a view has seen: whole moments to step back to, and each GPU's metrics for graphs. Bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/cluster/node.hpp"

namespace gpuwarden::view {

/// All nodes as they were at one moment.
struct Moment {
  std::int64_t slot = 0;  ///< counts intervals; there are gaps where a reading was late
  Clock::WallTime time{};
  std::vector<cluster::Node> nodes;
};

/// Names a GPU among those of all nodes.
std::string gpu_key(const cluster::Node& node, const facts::GpuRecord& record);
/// Where a metric stands in facts::metrics(); its size for an unknown one.
std::size_t metric_position(std::string_view id);

/// The limits: readings of single GPUs that are kept whole, and figures that are kept for graphs.
struct TrailLimits {
  std::size_t whole_gpus = 3000;
  std::size_t figures = 3'000'000;
  std::size_t longest = 3600;
};

class Trail {
 public:
  explicit Trail(std::chrono::milliseconds interval, TrailLimits limits = {});

  /// Adds what is there now; `when` only grows.
  void add(std::vector<cluster::Node> nodes, Clock::SteadyTime when, Clock::WallTime time);
  const std::deque<Moment>& moments() const { return moments_; }
  std::chrono::milliseconds interval() const { return interval_; }

  /// The metric over `dots` stretches of `each` slots, the last of them the one of slot `newest`: the highest value in
  /// each, NaN where there was none.
  struct Stretch {
    std::int64_t newest = 0;
    std::size_t dots = 0;
    unsigned each = 1;
  };
  std::vector<float> graph(const std::string& gpu, std::size_t metric, const Stretch& stretch) const;

 private:
  using Column = std::vector<float>;
  void note(const std::string& gpu, const facts::GpuSample& sample, std::int64_t slot);
  void clear_slots(std::int64_t from, std::int64_t to);
  std::size_t place(std::int64_t slot) const { return static_cast<std::size_t>(slot) % depth_; }

  std::chrono::milliseconds interval_;
  TrailLimits limits_;
  std::size_t depth_ = 0;
  Clock::SteadyTime begin_{};
  std::size_t whole_ = 0;
  std::deque<Moment> moments_;
  std::map<std::string, std::vector<Column>, std::less<>> columns_;
};

}  // namespace gpuwarden::view
