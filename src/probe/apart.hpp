// SPDX-License-Identifier: Apache-2.0
// GPUs of a series of readings that did not answer in time: a child for each, for which nobody waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/reading.hpp"
#include "probe/troubles.hpp"

namespace gpuwarden::probe {

class Apart {
 public:
  /// `child` was asked for the GPU at `since`; until it answers, the GPU is what `meanwhile` says.
  void keep(facts::GpuRecord meanwhile, std::unique_ptr<ChildProcess> child, Clock::SteadyTime since);
  bool holds(std::uint32_t index) const { return gpus_.contains(index); }
  /// Puts a record of each into the reading: what it has answered, and else what it is meanwhile. Who has answered is
  /// kept no longer; nor is who has not for `timeout`, or whose child has ended, which `troubles` then remember.
  void look(Clock::SteadyTime now, std::chrono::milliseconds timeout, Troubles& troubles, Reading& reading);
  void clear() { gpus_.clear(); }

 private:
  struct One {
    std::unique_ptr<ChildProcess> child;
    Clock::SteadyTime since{};
    facts::GpuRecord meanwhile;
    Reading reading;
    Progress progress;
  };
  enum class News { none, answered, ended };
  static News hear(One& one, std::uint32_t index);

  std::map<std::uint32_t, One> gpus_;
};

}  // namespace gpuwarden::probe
