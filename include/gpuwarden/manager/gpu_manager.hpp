// SPDX-License-Identifier: Apache-2.0
// The face for applications: which GPUs there are, what they hold, which to take, what a model needs of them, and how
// to make them visible.
//
//     GpuManager manager({});
//     const auto model = load_model("llama-3.1-8b");                       // manager/models.hpp
//     const auto settings = planning::settings_for(*model, "lora");
//     const auto gpus = manager.reserve({.work = planning::Workload{.model = *model, .settings = *settings}});
//     if (gpus) set_visible(gpus->decision());   // held while `gpus` lives; decision().model: how it fits them
//
// After initialize() it also looks after devices, memory and monitoring by a GpuConfig, each in a class of its own:
//
//     GpuManager manager({.config = {.memory_fraction = 0.5}});
//     if (auto ready = manager.initialize(); !ready) return ready.error();
//     manager.cuda().run("inference", [&](const Device& device) { return infer(device); });
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "gpuwarden/manager/config.hpp"
#include "gpuwarden/manager/cuda_manager.hpp"
#include "gpuwarden/manager/distributed.hpp"
#include "gpuwarden/manager/memory_manager.hpp"
#include "gpuwarden/manager/optimization.hpp"
#include "gpuwarden/manager/performance_monitor.hpp"
#include "gpuwarden/manager/release.hpp"
#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/planning/answer.hpp"
#include "gpuwarden/probe/machine_reader.hpp"

namespace gpuwarden::manager {

/// What a manager works with; the defaults are this machine, without restriction.
struct Options {
  probe::ReaderOptions reader;
  /// The environment whose CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER restrict the choice.
  Environment environment;
  /// Reads the GPUs; empty: this machine. Tests hand in snapshots.
  std::function<facts::Snapshot(const probe::ReadRequest&)> read;
  /// Where leases are kept. An empty `self` becomes this process.
  lease::StoreOptions leases;
  Clock* clock = &system_clock();
  /// What initialize() sets up, and details of its parts beyond the configuration (the keys that both have are the
  /// configuration's).
  GpuConfig config;
  CudaConfig cuda;
  MemoryConfig memory;
  MonitorConfig monitor;
  /// The CUDA driver, for contexts and memory; empty: this process has none for these GPUs.
  std::filesystem::path cuda_library = "libcuda.so.1";
};

/// The options for a machine that is open, whose facts, leases and CUDA driver are then meant. A simulated fleet's CUDA
/// driver is used where the process was started in it (GPUWARDEN_SIM_FLEET).
Options options_for(const machine::Machine& machine);

/// All that a GpuManager looks after, at one moment.
struct ManagerStatus {
  bool initialized = false;
  /// Work can be given to a GPU, and the CUDA driver's library is there.
  bool cuda_available = false;
  bool simulated = false;
  std::optional<std::string> driver_version;
  std::string problem;  ///< why the CPU is used; empty where all is well
  Device current;       ///< the best device now
  std::vector<DeviceStatus> gpus;
  std::vector<MemoryStatus> memory;  ///< one for each device whose memory() was asked for
  bool monitoring = false;
  std::vector<telemetry::Alert> alerts;
  std::vector<profile::Operation> operations;  ///< that were profiled
  OptimizationPlan optimization;               ///< on the best device
  std::optional<DistributedSetup> distributed;
  std::vector<std::string> releasable;
  GpuConfig config;
};
nlohmann::json to_json(const ManagerStatus& status);

/// Memory of one GPU. `warning` is set above the threshold that was asked for.
struct MemoryUsage {
  Bytes total;
  Bytes used;
  Bytes free;
  double used_percent = 0;  ///< 0 to 100
  std::optional<std::string> warning;
};

/// The calls that look at the machine read it afresh; not thread-safe, but for what cuda(), memory() and monitor()
/// give.
class GpuManager {
 public:
  explicit GpuManager(Options options);
  GpuManager(GpuManager&&) noexcept;
  GpuManager& operator=(GpuManager&&) = delete;
  ~GpuManager();  ///< as shutdown()

  /// Reads the devices, starts health checks, monitoring and what else the configuration asks for. A machine without a
  /// GPU is no failure. Fails with invalid_argument for a configuration that is out of its range (naming the key), as
  /// CudaManager::initialize() and set_up_distributed() do. The second call does nothing.
  Result<void> initialize(const std::stop_token& stop = {});
  bool initialized() const { return parts_ != nullptr; }
  /// Ends what initialize() began, and gives all memory back.
  void shutdown();
  ManagerStatus status();

  /// The parts; after initialize() alone.
  CudaManager& cuda();
  /// Of the GPU, or of the best device; its pool is made when memory is asked for. The CPU's where the GPU is not
  /// managed.
  MemoryManager& memory(std::optional<GpuIndex> gpu = std::nullopt);
  PerformanceMonitor& monitor();
  /// What can be let go of when memory is short; every MemoryManager's pool is in it.
  ReleaseBook& releases();

  /// As CudaManager::enter().
  Result<DeviceContext> device_context(std::optional<GpuIndex> gpu = std::nullopt);
  /// What may be done to a model on that device.
  OptimizationPlan optimization(std::optional<GpuIndex> gpu = std::nullopt);
  /// What this process needs to find its fellows, though config.enable_distributed is false. Fails as
  /// manager::set_up_distributed().
  Result<DistributedSetup> set_up_distributed();
  /// Empties caches, trims pools, moves models away, until `needed` is free.
  ReleaseReport emergency_release(std::optional<Bytes> needed = std::nullopt);

  /// The GPUs that answer, in NVML's order, with SM and core counts where known. Empty where there is no driver.
  std::vector<facts::GpuRecord> available_gpus();
  /// One GPU by index, UUID (or its beginning) or bus id. Fails with invalid_argument (names those that exist).
  Result<facts::GpuRecord> gpu_info(const std::string& name);
  /// Fails with unavailable where the GPU does not report its memory.
  Result<MemoryUsage> memory_usage(const std::string& name, double warn_above_percent = 90);
  /// The decision of placement::select on the machine as it is now: what others have leased is not chosen, and nothing
  /// is held (see reserve()). With request.work or model_size it takes as many
  /// GPUs as that model needs, and says in decision.strategy and decision.model how it fits them.
  Result<placement::Decision> select(const placement::Request& request);
  /// Chooses as select() does, and holds the GPUs against everybody who asks gpuwarden, until the reservation leaves
  /// its scope. `wait`: how long to wait in line for them, max() for no limit, none for not at all. Fails as
  /// machine::Reservation::make() does.
  Result<machine::Reservation> reserve(const placement::Request& request,
                                       std::optional<std::chrono::milliseconds> wait = std::nullopt,
                                       const std::stop_token& stop = {});
  /// What `gpuwarden plan` answers: memory by component, a verdict for each strategy, speed. Where request.gpus names
  /// none (its `usable` is 0) the plan is for this machine's, as if nobody used them. Fails as planning::answer() does,
  /// and with unsatisfied where the machine has no GPU that tells its memory.
  Result<planning::PlanAnswer> plan(planning::PlanRequest request);
  /// The free GPU, that nobody has leased, with the highest capability score. Fails with unsatisfied, saying what is in
  /// the way.
  Result<placement::Device> optimal_device();

 private:
  facts::Snapshot read(const probe::ReadRequest& request = {});
  Result<machine::Reservation> choose(const machine::ReservationRequest& request, const std::stop_token& stop);
  struct Parts;
  struct Reader;
  Options options_;
  std::shared_ptr<Reader> reader_;
  std::unique_ptr<Parts> parts_;  ///< empty before initialize()
};

/// How much a GPU can do now: free memory in GiB plus multiprocessors, times the share of time in which it is idle.
/// Higher is better; nothing for a GPU in trouble or without a memory reading. A ranking aid of gpuwarden's own, not a
/// published figure: SM counts come from NVIDIA's data sheets (knowledge/gpu_models.csv).
std::optional<double> capability_score(const facts::GpuRecord& record);

/// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER for a decision, to start a process with.
Environment environment_for(const placement::Decision& decision);
/// Sets them in this process. Before CUDA is initialised, and while no other thread reads the environment.
void set_visible(const placement::Decision& decision);

/// Sets them and restores what was there before at the end of the scope; same conditions as set_visible.
class ScopedVisibleDevices {
 public:
  explicit ScopedVisibleDevices(const placement::Decision& decision);
  ScopedVisibleDevices(const ScopedVisibleDevices&) = delete;
  ScopedVisibleDevices& operator=(const ScopedVisibleDevices&) = delete;
  ~ScopedVisibleDevices();

 private:
  std::optional<std::string> devices_before_;
  std::optional<std::string> order_before_;
};

/// Makes a CUDA device current for the calling thread, and the one before it again at the end of the scope. Speaks to
/// libcuda.so.1 through dlopen.
class DeviceGuard {
 public:
  /// `library`: for tests. Fails with unavailable (no driver), invalid_argument (no such device).
  static Result<DeviceGuard> enter(CudaOrdinal device, const std::string& library = "libcuda.so.1");
  DeviceGuard(DeviceGuard&& other) noexcept;
  DeviceGuard& operator=(DeviceGuard&&) = delete;
  ~DeviceGuard();

 private:
  struct Cuda;
  DeviceGuard(std::shared_ptr<const Cuda> cuda, int device) : cuda_(std::move(cuda)), device_(device) {}
  std::shared_ptr<const Cuda> cuda_;  ///< empty after a move
  int device_;
};

}  // namespace gpuwarden::manager
