// SPDX-License-Identifier: Apache-2.0
// Who processes are, looked up in /proc no more often than it can matter to a series of readings.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::probe {

/// Remembers a name for ten seconds: a pid that is given to another process within that time, after its GPU's list was
/// read without it, keeps the old one no longer.
class ProcessNames {
 public:
  explicit ProcessNames(const std::vector<std::filesystem::path>& proc_roots) : proc_roots_(proc_roots) {}

  /// Begins a reading: what was not asked for in the last one is forgotten.
  void begin(Clock::SteadyTime now);
  /// As name_process().
  void name(facts::GpuProcess& process);

 private:
  struct Known {
    facts::GpuProcess names;
    Clock::SteadyTime looked_up{};
    unsigned asked = 0;  ///< the number of the reading
  };
  const std::vector<std::filesystem::path>& proc_roots_;
  std::map<std::int32_t, Known> known_;
  Clock::SteadyTime now_{};
  unsigned reading_ = 0;
};

}  // namespace gpuwarden::probe
