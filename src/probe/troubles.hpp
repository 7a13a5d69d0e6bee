// SPDX-License-Identifier: Apache-2.0
// Who fell silent in earlier readings, so that later ones do not wait for them again and again.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// Until when who is in trouble is left alone.
struct TroubleRest {
  std::chrono::seconds pause{0};
  Clock::SteadyTime until{};
  void begin(Clock::SteadyTime now);
};

/// Shared by all readers that were made from one ReaderOptions; safe to use from several threads. Who is in trouble
/// rests: its record is repeated, and it is asked again after 30 s, then after twice as long each time, up to 10 min.
class Troubles {
 public:
  /// What of the GPUs in trouble may be asked again now (and is then due later), and what rests; with their records.
  struct View {
    std::map<std::uint32_t, facts::GpuRecord> due;
    std::map<std::uint32_t, facts::GpuRecord> resting;
  };
  View look(Clock::SteadyTime now);
  void remember(const facts::GpuRecord& record, Clock::SteadyTime now);
  void forget(GpuIndex index);
  /// The same for the driver as a whole; nothing: it may be asked.
  std::optional<facts::DriverProblem> resting_driver(Clock::SteadyTime now);
  void remember_driver(const facts::DriverProblem& problem, Clock::SteadyTime now);
  void forget_driver();
  /// The driver is another than before.
  void forget_all();

 private:
  template <class What>
  struct Resting {
    What what;
    TroubleRest rest;
  };

  std::mutex mutex_;
  std::map<std::uint32_t, Resting<facts::GpuRecord>> gpus_;
  std::optional<Resting<facts::DriverProblem>> driver_;
};

}  // namespace gpuwarden::probe
