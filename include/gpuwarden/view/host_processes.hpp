// SPDX-License-Identifier: Apache-2.0
// What the host knows of processes on GPUs: processor time, memory, age, parents, what their pools tell.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/pools/memory_status.hpp"

namespace gpuwarden::view {

struct HostProcess {
  std::optional<double> cpu_percent;  ///< of one processor; known from the second look on
  std::optional<Bytes> memory;        ///< resident
  std::optional<std::chrono::seconds> age;
  std::optional<std::uint64_t> start_ticks;  ///< tells it from another with the same pid
  std::vector<Pid> ancestors;                ///< nearest first, as far as they were looked up
  bool stand_in = false;                     ///< a simulated fleet tells of it, and it does not run here
  pools::Pools pools;                        ///< what its allocators tell of themselves, on whichever GPU
};

using HostTable = std::map<Pid, HostProcess>;

/// Looks processes up in a thread of its own, only those that are asked for: /proc may be slow, and a process in
/// trouble hangs who reads about it.
class HostProcesses {
 public:
  /// As probe::ReaderOptions::proc_roots: the first root that knows a pid tells. `read_pools` gives what is published,
  /// and is called from the thread; empty: pools are not looked for.
  explicit HostProcesses(std::vector<std::filesystem::path> proc_roots, std::function<pools::Pools()> read_pools = {});
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;
  ~HostProcesses();

  /// Asks for these; the answer comes with latest(), and `done` is called from the thread then.
  void look_at(std::vector<Pid> pids, bool ancestors, std::function<void()> done);
  HostTable latest() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::view
