// SPDX-License-Identifier: Apache-2.0
// Everything that is watched while a job runs and may end it early: hangs, stragglers, lost GPUs, what runs out.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/launch/run.hpp"
#include "launch/emergency.hpp"
#include "launch/hang.hpp"
#include "launch/straggler.hpp"

namespace gpuwarden::launch {

/// One run's. Readings come from the sampler's thread, all else from the job's.
class RunWatch {
 public:
  RunWatch(const ReadyRun& run, const RunOptions& options, Clock& clock);
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;
  ~RunWatch() = default;

  /// Whom the sampler tells of readings; `next` is told after.
  std::function<void(telemetry::Reading)> hearing(std::function<void(telemetry::Reading)> next);
  /// `environment`: of the ranks, where debuggers are looked for.
  void hook_into(JobHooks& hooks, const Environment& environment);
  /// What was seen; after the job's end.
  void tell(RunReport& report) const;

 private:
  using Stacks = std::map<std::uint32_t, std::string>;

  void hear(const telemetry::Reading& reading);
  void note_late_readings(const facts::Snapshot& snapshot);
  void note_lost(const facts::Snapshot& snapshot);
  const facts::GpuRecord* record_of(const facts::Snapshot& snapshot, std::size_t gpu) const;
  std::string give_up(const std::vector<RankEnd>& running, const Environment& environment);
  std::optional<EarlyEnd> end_early(const std::vector<RankEnd>& running);
  std::string lost_gpus() const;
  void warn_of_stragglers();
  /// A sentence where the job is to be ended for one's sake.
  std::string intolerable_straggler();

  const ReadyRun& run_;
  const RunOptions& options_;
  Clock& clock_;
  std::optional<HangWatch> hang_;
  std::optional<EmergencyWatch> emergencies_;
  Stacks stacks_;
  bool looked_ = false;  ///< at the stacks, since the job last got on
  Clock::SteadyTime looked_at_{};

  mutable std::mutex mutex_;  ///< guards what readings change
  StragglerWatch straggler_watch_;
  std::vector<Straggler> stragglers_;
  std::size_t warned_of_ = 0;
  struct Loss {
    Clock::SteadyTime since;
    GpuIndex place;
  };
  std::map<std::size_t, Loss> lost_;  ///< by place in ReadyRun::gpus
  std::deque<LateReading> late_;
  std::optional<facts::Snapshot> last_seen_;
};

}  // namespace gpuwarden::launch
