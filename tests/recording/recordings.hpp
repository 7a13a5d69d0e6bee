// SPDX-License-Identifier: Apache-2.0
// Recordings for tests, as values.
#pragma once

#include <functional>
#include <string>

#include "gpuwarden/recording/collector.hpp"
#include "gpuwarden/recording/recording.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::testing {

/// 20 Nov 2026, 12:00 UTC.
inline telemetry::WallTime noon() {
  return std::chrono::sys_days(std::chrono::year(2026) / 11 / 20) + std::chrono::hours(12);
}

/// What GPUs read at a moment: `fill` sets the samples of a healthy fleet.
using Fill = std::function<void(facts::Snapshot&, int reading)>;

inline telemetry::Reading reading_at(std::uint32_t gpus, int number, std::chrono::seconds interval, const Fill& fill) {
  telemetry::Reading reading;
  reading.snapshot = fleet(gpus);
  reading.snapshot.host = "node7";
  reading.snapshot.taken_at = noon() + number * interval;
  reading.when = Clock::SteadyTime{} + number * interval;
  for (facts::GpuRecord& record : reading.snapshot.gpus) {
    record.sample.temperature = Celsius(50);
    record.sample.power = Milliwatts(200'000);
    record.sample.throttle_reasons.emplace();
  }
  fill(reading.snapshot, number);
  return reading;
}

/// A recording of so many readings.
inline recording::Recording record(std::uint32_t gpus, int readings, std::chrono::seconds interval, const Fill& fill) {
  recording::Collector collector(interval);
  recording::Watch watch;
  recording::Recording result;
  std::vector<telemetry::Happening> happenings;
  for (int i = 0; i < readings; ++i) {
    auto reading = reading_at(gpus, i, interval, fill);
    watch.identify(reading.snapshot);
    for (auto& happening : watch.judge(reading)) happenings.push_back(std::move(happening));
    for (const auto& one : reading.snapshot.gpus) collector.add(one, one.gpu.uuid, reading.snapshot.taken_at);
  }
  result = collector.recording();
  result.happenings = std::move(happenings);
  result.info.host = "node7";
  result.info.command = {"python", "train.py"};
  result.info.exit_code = 0;
  result.info.finished = true;
  return result;
}

/// Sets how busy a GPU is.
inline void set_load(facts::GpuRecord& record, int percent, Bytes memory) {
  record.sample.utilization_gpu = Percent(percent);
  record.sample.memory_used = memory;
}

}  // namespace gpuwarden::testing
