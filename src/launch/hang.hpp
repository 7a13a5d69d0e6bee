// SPDX-License-Identifier: Apache-2.0
// Whether a job still gets on: its output, the work of its GPUs, without GPUs the CPU time of its processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::launch {

/// Whether the GPU computes or moves memory. One that is busy without reading or writing its memory waits, as NCCL's
/// kernels do, unless it draws half of its power limit or more; one whose load is not told is taken to work, since a
/// job is not ended for what is not known.
bool does_work(const facts::GpuRecord& record);

/// Notes each sign of progress. Safe to use from several threads.
class HangWatch {
 public:
  /// `gpus`: the job's, by UUID; none: its processes' CPU time counts.
  HangWatch(std::chrono::milliseconds limit, std::vector<Uuid> gpus, Clock& clock);

  void output();
  void reading(const facts::Snapshot& snapshot);
  /// "nothing was printed and GPU 0 to 3 did no work for 5 min"; empty: it gets on. `ranks`: those that run.
  std::string stuck(const std::vector<Pid>& ranks);

 private:
  void progress();
  bool cpus_work(const std::vector<Pid>& ranks);

  const std::chrono::milliseconds limit_;
  const std::vector<Uuid> gpus_;
  Clock& clock_;
  std::mutex mutex_;
  Clock::SteadyTime last_;
  std::map<int, std::uint64_t> ticks_;  ///< of each rank with its descendants, when they were last looked at
};

/// Whether a process has got on between two looks at its stacks (stacks_of): where these are a debugger's, and differ
/// but for the innermost frames of native code, which spin while they wait. What the kernel tells of threads tells
/// nothing.
bool has_moved(const std::string& before, const std::string& after);

/// What a process is doing, a few lines of text: its stacks by py-spy, else by gdb, where one is installed and may look
/// at it; else what the kernel tells of its threads. Takes seconds at most.
std::string stacks_of(Pid pid, const Environment& environment);

}  // namespace gpuwarden::launch
