// SPDX-License-Identifier: Apache-2.0
// GPUs that were at fault, until they have been well for a while.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::healing {

/// Safe to use from several threads.
class Outcasts {
 public:
  explicit Outcasts(std::chrono::milliseconds probation) : probation_(probation) {}

  /// It failed a job, now.
  void add(const Uuid& gpu);
  /// A GPU is well that answers, has its UUID, and shows nothing that keeps it from being used.
  void hear(const telemetry::Reading& reading);
  /// Those that are still to be left out.
  std::vector<Uuid> at(Clock::SteadyTime now) const;

 private:
  struct Record {
    unsigned times = 0;
    std::optional<Clock::SteadyTime> well_since;
  };
  std::chrono::milliseconds probation_of(const Record& record) const;

  const std::chrono::milliseconds probation_;
  mutable std::mutex mutex_;
  std::map<Uuid, Record> records_;
};

}  // namespace gpuwarden::healing
