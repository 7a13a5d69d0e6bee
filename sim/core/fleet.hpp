// SPDX-License-Identifier: Apache-2.0
// A live fleet: what NVML functions ask and what control calls change.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "sim/core/fields.hpp"
#include "sim/core/fleet_spec.hpp"
#include "sim/core/folder.hpp"
#include "sim/core/shared_state.hpp"

namespace gpuwarden::sim {

struct ProcessView {
  std::int32_t pid = 0;
  std::string command;
  std::optional<std::uint64_t> memory_bytes;
  std::uint32_t utilization = 0;
  bool compute = true;
  bool graphics = false;
  std::optional<std::uint32_t> gpu_instance;
  bool mps = false;
};

/// A fault in force on a GPU.
struct FaultView {
  FaultKind kind = FaultKind::xid;
  std::int64_t value = 0;
  std::uint32_t number = 0;  ///< rising in the order of injection
};

/// One GPU at one moment.
struct GpuView {
  const GpuSpec* spec = nullptr;
  Readings readings{};
  std::vector<ProcessView> processes;
  bool lost = false;
  bool reset_required = false;
  bool unknown_error = false;
  bool no_permission = false;
  bool hang = false;
  std::uint64_t nvlinks_down = 0;  ///< bit per link
  std::vector<FaultView> faults;
  std::uint32_t fault_number = 0;  ///< of the fleet's newest fault
  std::uint64_t held_bytes = 0;    ///< through the CUDA driver
  bool mig = false;
  std::vector<MigInstance> instances;  ///< MIG devices; none while MIG is off
  MigState mig_state{};
  GpuSettings settings{};
};

struct EventView {
  std::uint64_t number = 0;
  std::uint32_t gpu = 0;
  std::uint64_t type = 0;
  std::uint64_t data = 0;
};

/// The fleet at one moment.
struct FleetView {
  std::chrono::milliseconds time{0};  ///< fleet time
  std::vector<GpuView> gpus;
  std::vector<EventView> events;  ///< the newest, oldest first
  bool mismatch = false;
  bool driver_not_loaded = false;
  bool hang_init = false;
};

/// Safe to use from several threads; a forked child may go on using its copy.
class Fleet {
 public:
  /// `spec`: a preset's name, a YAML file, the name of a live fleet, or a fleet folder.
  static Result<std::shared_ptr<Fleet>> attach(std::string_view spec,
                                               const std::filesystem::path& root = default_root());
  /// The fleet that the environment names to a stand-in library (GPUWARDEN_SIM_FLEET, else GPUWARDEN_SIMULATE, else
  /// h100x8); nullptr where it cannot be had, with the reason on stderr.
  static std::shared_ptr<Fleet> attach_for_library();
  /// Makes (or joins) a fleet under a name of its own.
  static Result<std::shared_ptr<Fleet>> start(std::string_view name, std::string_view spec,
                                              const std::filesystem::path& root = default_root());

  const FleetSpec& spec() const { return spec_; }
  const std::string& id() const { return id_; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// As FleetFolder::bequeath().
  Result<void> bequeath() const { return folder_.bequeath(); }

  /// The fleet now; the same object as before while nothing has changed.
  Result<std::shared_ptr<const FleetView>> view();
  /// Blocks until an event newer than `after` whose type is in `mask` on one of `gpus` (bit mask) comes, or the time
  /// (wall clock) is over.
  std::optional<EventView> wait_event(std::uint64_t after, std::uint64_t mask, std::uint64_t gpus,
                                      std::chrono::milliseconds timeout);

  /// Where a process is: a GPU, or a MIG instance on it.
  struct Place {
    std::uint32_t gpu = 0;
    std::uint32_t gpu_instance = kNoInstance;
  };
  /// Whose memory it is: a process, told from a later one of the same pid by its start.
  struct Owner {
    std::int32_t pid = 0;
    std::uint64_t start_time = 0;
  };
  enum class Taken { done, out_of_memory, table_full };
  /// GPU memory for a process: from what is free of the GPU or instance, at once or not at all. With `object` the
  /// bytes are a memory object's that others may hold too; with `context` a CUDA context begins to live there.
  Result<Taken> take(const Owner& owner, const Place& place, std::uint64_t bytes, std::uint64_t object = 0,
                     bool context = false);
  /// Gives back what take() took.
  Result<void> give(const Owner& owner, const Place& place, std::uint64_t bytes, std::uint64_t object = 0,
                    bool context = false);
  /// Makes a memory object of bytes that the process has for itself, so that others can hold it as well.
  Result<Taken> share(const Owner& owner, const Place& place, std::uint64_t bytes, std::uint64_t object);
  struct Memory {
    std::uint64_t total = 0;
    std::uint64_t free = 0;
  };
  Result<Memory> memory(const Place& place);
  /// Uses up one fault of a kind that strikes a number of times; its value, or nothing where none is in force.
  Result<std::optional<std::int64_t>> use_up(std::uint32_t gpu, FaultKind kind);
  /// Rises when faults come or go: the same number means the same faults.
  std::uint64_t fault_generation() const { return state_.fault_generation(); }

  Result<void> declare(std::int32_t pid, const std::vector<Place>& places, std::uint64_t memory_bytes,
                       std::uint32_t utilization, bool graphics);
  Result<void> undeclare(std::int32_t pid);
  Result<void> inject(std::uint32_t gpu, const Fault& fault);
  Result<void> clear_faults(std::uint32_t gpu);
  /// Pins a reading; an empty value means "not supported".
  Result<void> set(std::uint32_t gpu, Field field, std::optional<double> value);
  /// Changes the state, brought up to now before; where `change` says true, the change holds.
  Result<void> update(const std::function<bool(Body&, const FleetSpec&)>& change);
  struct ClockChange {
    std::optional<bool> frozen;
    std::optional<double> speed;
    std::optional<double> advance_seconds;
  };
  Result<void> change_clock(const ClockChange& change);

 private:
  Fleet(FleetSpec spec, std::string id, FleetFolder folder);
  static Result<std::shared_ptr<Fleet>> make(std::string_view id, std::string_view yaml, std::string_view file,
                                             const std::filesystem::path& root);
  static Result<std::shared_ptr<Fleet>> join(const std::filesystem::path& folder);
  Result<void> open_state();

  FleetSpec spec_;
  std::string id_;
  FleetFolder folder_;
  SharedState state_;

  struct Seen {
    std::shared_ptr<const FleetView> view;
    std::uint64_t generation = 0;
    std::int64_t clock_origin_ns = 0;
    std::int64_t sim_origin_ns = 0;
    double speed = 1;
    bool frozen = false;
    std::uint64_t tick = 0;
    bool has_processes = false;
    std::int64_t at_ns = 0;
  };
  bool is_current(const Seen& seen, std::int64_t now_ns) const;
  std::mutex mutex_;
  Seen seen_;
};

}  // namespace gpuwarden::sim
