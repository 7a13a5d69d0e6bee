// SPDX-License-Identifier: Apache-2.0
// What a job's GPUs do just now, in a file that whoever follows the job elsewhere reads.
#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::launch {

inline constexpr std::chrono::seconds kStatusPeriod{5};

/// A GPU or MIG instance of the job, and where it was when it was chosen: one that is lost is known by its place alone.
struct StatusGpu {
  Uuid uuid;
  GpuIndex place;
};

/// {"schema", "simulated", "time", "gpus": [{"index", "name", "state", "usable", "utilization_percent",
/// "memory_used_bytes", "memory_total_bytes", "temperature_celsius", "power_watts"}]}, of these GPUs; what they do not
/// tell is null.
std::string status_json(const facts::Snapshot& snapshot, const std::vector<StatusGpu>& gpus);

/// Writes that file at most every kStatusPeriod, always as a whole. What cannot be written once is not tried again.
/// Thread-safe.
class StatusFile {
 public:
  explicit StatusFile(std::filesystem::path file) : file_(std::move(file)) {}
  /// The job's GPUs from here on: other tries may have others.
  void hold(std::vector<StatusGpu> gpus);
  /// From the sampler's thread.
  void hear(const telemetry::Reading& reading);
  /// Why it could not be written.
  std::optional<Error> problem() const;

 private:
  std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::vector<StatusGpu> gpus_;
  std::optional<Clock::SteadyTime> written_;
  std::optional<Error> problem_;
};

}  // namespace gpuwarden::launch
