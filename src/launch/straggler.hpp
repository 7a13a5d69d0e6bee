// SPDX-License-Identifier: Apache-2.0
// Which of a job's GPUs is far behind the others.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/launch/report.hpp"

namespace gpuwarden::launch {

/// Compares what the GPUs did within a window of time: a GPU is far behind if it works with a clock of less than four
/// fifths of its peers' median, or if it works less than half as much as they do and draws less than 70 % of their
/// power. Peers that hardly work (less than 30 %) tell nothing, nor does a figure that is not known.
class StragglerWatch {
 public:
  StragglerWatch(std::vector<Uuid> gpus, std::chrono::milliseconds window);
  /// Those that are found now and were not before.
  std::vector<Straggler> add(const facts::Snapshot& snapshot, Clock::SteadyTime when);

 private:
  struct Moment {
    Clock::SteadyTime when;
    facts::GpuSample sample;
    std::optional<std::uint32_t> max_width;
  };
  struct Means;
  std::optional<Means> means_of(const Uuid& uuid) const;
  std::optional<Straggler> judge(const Means& one, const std::vector<Means>& peers) const;

  const std::vector<Uuid> gpus_;
  const std::chrono::milliseconds window_;
  std::map<Uuid, std::deque<Moment>> moments_;
  std::map<Uuid, GpuIndex> places_;
  std::set<Uuid> told_;
};

}  // namespace gpuwarden::launch
