// SPDX-License-Identifier: Apache-2.0
// What a job's GPUs do just now, in a file that whoever follows the job elsewhere reads.
#pragma once

#include <chrono>
#include <filesystem>
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
class StatusFile {
 public:
  explicit StatusFile(std::filesystem::path file) : file_(std::move(file)) {}
  /// From the sampler's thread.
  void hear(const telemetry::Reading& reading, const std::vector<StatusGpu>& gpus);
  /// Why it could not be written; asked after the job.
  const std::optional<Error>& problem() const { return problem_; }

 private:
  std::filesystem::path file_;
  std::optional<Clock::SteadyTime> written_;
  std::optional<Error> problem_;
};

}  // namespace gpuwarden::launch
