// SPDX-License-Identifier: Apache-2.0
// The part of a fleet that processes share: plain data in a mapped file, written to the inactive of two buffers and
// then switched, so that a process killed at any moment leaves a whole state behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>

#include "gpuwarden/base/result.hpp"
#include "sim/core/physics.hpp"

namespace gpuwarden::sim {

inline constexpr std::uint32_t kNoInstance = 0xFFFFFFFF;
inline constexpr std::size_t kMaxProcesses = 512;
inline constexpr std::size_t kMaxFaults = 128;
inline constexpr std::size_t kMaxEvents = 64;
inline constexpr std::size_t kMaxOverrides = 256;
inline constexpr std::size_t kMaxHoldings = 1024;

/// A real process that said what it holds; gone when the process is.
struct DeclaredProcess {
  std::int32_t pid;
  std::uint32_t gpu;
  std::uint64_t start_time;  ///< clock ticks since boot: a pid alone may be reused
  std::uint64_t memory_bytes;
  std::uint32_t utilization;
  std::uint32_t graphics;
  std::uint32_t gpu_instance;  ///< of MIG, or kNoInstance
  std::uint32_t pad;
};

/// GPU memory that a process took through the simulated CUDA driver; gone when the process is. A memory object that
/// several processes share has a row for each of them and counts once, for the first.
struct Holding {
  std::int32_t pid;
  std::uint32_t gpu;
  std::uint64_t start_time;
  std::uint64_t bytes;
  std::uint64_t object;        ///< 0: what the process has for itself
  std::uint32_t gpu_instance;  ///< of MIG, or kNoInstance
  std::uint32_t contexts;      ///< CUDA contexts that live there
};

/// A fault in force or still to come.
struct SharedFault {
  FaultKind kind;
  std::uint32_t gpu;  ///< or kWholeFleet
  std::int64_t value;
  std::uint64_t tick;     ///< when it strikes
  std::uint32_t applied;  ///< its one-time effects have happened
  std::uint32_t number;   ///< from 1, rising
};

struct SharedEvent {
  std::uint64_t number;  ///< from 1, rising
  std::uint64_t type;
  std::uint64_t data;
  std::uint32_t gpu;
  std::uint32_t pad;
};

struct Override {
  std::uint32_t gpu;
  std::uint32_t field;
  std::uint32_t supported;
  std::uint32_t pad;
  double value;
};

/// One whole state.
struct Body {
  std::uint64_t tick;
  std::int64_t clock_origin_ns;  ///< CLOCK_MONOTONIC when fleet time was `sim_origin_ns`
  std::int64_t sim_origin_ns;
  double speed;
  std::uint32_t frozen;
  std::uint32_t process_count;
  std::uint32_t fault_count;
  std::uint32_t override_count;
  std::uint64_t event_number;  ///< of the newest event
  std::uint32_t holding_count;
  std::uint32_t fault_number;  ///< of the newest fault
  GpuState gpus[kMaxGpus];
  DeclaredProcess processes[kMaxProcesses];
  SharedFault faults[kMaxFaults];
  SharedEvent events[kMaxEvents];  ///< ring by number
  Override overrides[kMaxOverrides];
  Holding holdings[kMaxHoldings];
};

/// The mapped file. All access happens under a file lock taken on a descriptor opened for the purpose, so that forked
/// children and threads exclude each other too.
class SharedState {
 public:
  SharedState() = default;
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;
  ~SharedState();

  /// Maps FOLDER/state, writing `initial` when it is missing, too short or of another layout.
  Result<void> open(const std::filesystem::path& folder, const std::function<void(Body&)>& initial);
  /// Runs `change` on a copy of the state; where it says true, the copy becomes the state.
  Result<void> update(const std::function<bool(Body&)>& change);
  /// Rises with every change; the same number means the same state.
  std::uint64_t generation() const;
  /// The same for the list of faults alone.
  std::uint64_t fault_generation() const;

 private:
  struct File;
  std::mutex mutex_;  // the file lock alone excludes threads too, but thread sanitizers do not know it
  std::filesystem::path folder_;
  File* file_ = nullptr;
};

}  // namespace gpuwarden::sim
