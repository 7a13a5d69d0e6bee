// SPDX-License-Identifier: Apache-2.0
// What the sampler hands on: everything about the GPUs at one moment, and what happened since the last one.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/gpu_event.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::telemetry {

/// One reading. Its time of day is snapshot.taken_at.
struct Reading {
  facts::Snapshot snapshot;
  std::vector<facts::Lease> leases;
  /// What the driver reported since the reading before.
  std::vector<facts::GpuEvent> events;
  Clock::SteadyTime when{};         ///< when it was begun
  std::chrono::nanoseconds took{};  ///< how long it took
};

}  // namespace gpuwarden::telemetry
