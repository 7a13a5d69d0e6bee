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
inline constexpr std::size_t kMaxOverrides = 512;
inline constexpr std::size_t kMaxHoldings = 1024;
inline constexpr std::size_t kMaxInstances = 7;  ///< of MIG on a GPU, of either kind
inline constexpr std::size_t kMaxAccounts = 128;

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

/// What a caller's settings have changed on a GPU beyond its readings; 0 is as the product comes.
struct GpuSettings {
  std::uint32_t clock_low;  ///< locked graphics clocks, MHz; 0: not locked
  std::uint32_t clock_high;
  std::uint32_t memory_clock_low;
  std::uint32_t memory_clock_high;
  std::uint32_t fan_is_manual;
  std::uint32_t fan_percent;
  std::uint32_t is_drained;
  std::uint32_t clocks_are_free;  ///< users may set application clocks
  /// What the ECC counters had counted when they were cleared: volatile and aggregate, corrected and uncorrected.
  std::uint64_t ecc_cleared[2][2];
};

/// A MIG GPU instance; its profile is an index into the model's.
struct SharedGpuInstance {
  std::uint8_t used;
  std::uint8_t id;
  std::uint8_t profile;  ///< kNoProfile: described by the fleet's file alone
  std::uint8_t start;    ///< of its memory slices
  std::uint8_t size;
};
inline constexpr std::uint8_t kNoProfile = 0xFF;

struct SharedComputeInstance {
  std::uint8_t used;
  std::uint8_t gpu_instance;  ///< id
  std::uint8_t id;
  std::uint8_t slices;
  std::uint8_t start;
  std::uint8_t described;  ///< from 1: the instance of the fleet's file; 0: made since
  std::uint32_t number;    ///< rising with each that was made
};

/// How a GPU is cut up; an instance keeps its slot while it lives.
struct MigState {
  SharedGpuInstance gpu[kMaxInstances];
  SharedComputeInstance compute[kMaxInstances];
};

/// What accounting has seen of a process.
struct Account {
  std::int32_t pid;
  std::uint32_t gpu;
  std::uint64_t started;  ///< tick
  std::uint64_t ended;    ///< tick; 0: it runs
  std::uint64_t max_memory;
  std::uint32_t utilization;
  std::uint32_t number;  ///< rising
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
  GpuSettings settings[kMaxGpus];
  MigState mig[kMaxGpus];
  std::uint32_t mig_number;  ///< of the newest compute instance
  std::uint32_t account_number;
  std::uint32_t account_count;
  std::uint32_t pad;
  Account accounts[kMaxAccounts];
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
