// SPDX-License-Identifier: Apache-2.0
// Who used the GPUs, how long and how well: by process, job and user.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/telemetry/history.hpp"

namespace gpuwarden::telemetry {

/// Use of one GPU by one process within a step of time, or summed up over more. Fields that are not known are empty;
/// shares are not split by guess: `utilization` is the process's own where the driver tells it, and else the GPU's only
/// where the process was alone on it.
struct Use {
  std::string user;  ///< empty: not visible
  std::string job;   ///< gpuwarden's run id, else "slurm:ID", else empty
  /// Empty where a lease holds the GPU and no process of its user runs there, and where several were added up.
  std::optional<Pid> pid;
  std::string command;  ///< the process's, or the lease holder's
  Uuid gpu;
  GpuIndex index;
  WallTime from{};
  WallTime to{};
  double gpu_seconds = 0;                  ///< time for which it held the GPU
  double busy_seconds = 0;                 ///< time for which it computed there, as far as that is known
  std::optional<double> mean_utilization;  ///< percent, over the readings that tell it
  std::optional<Bytes> peak_memory;
};

/// Adds up readings to uses of at most `step` long, cut at multiples of it. Who is on a GPU at one reading holds it
/// until the next, if that comes within three usual times between readings. Processes that only draw, or only have the
/// device open, hold nothing; a MIG instance counts as its GPU.
class UsageMeter {
 public:
  explicit UsageMeter(std::chrono::milliseconds step = std::chrono::minutes(1));
  UsageMeter(UsageMeter&&) noexcept;
  UsageMeter& operator=(UsageMeter&&) noexcept;
  ~UsageMeter();
  void add(const Reading& reading);
  /// Those whose step is over; they are handed out once.
  std::vector<Use> take_finished();
  /// All that is left, at the end.
  std::vector<Use> take_all();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum class UseBy { user, job, process };
/// Adds up: one row for each user, job (work outside of jobs by user) or process; `gpu` is then empty where it was more
/// than one. Who has several processes on a GPU at once holds it once; peak_memory is the most of one process. Longest
/// first.
std::vector<Use> sum_up(const std::vector<Use>& uses, UseBy by);

}  // namespace gpuwarden::telemetry
