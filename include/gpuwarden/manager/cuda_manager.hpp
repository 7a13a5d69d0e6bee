// SPDX-License-Identifier: Apache-2.0
// The devices of a program: their states, work that is tried again and moved to another GPU, and the CPU where none is
// left.
//
//     CudaManager devices({}, {.read = ..., .visibility = ...});
//     if (auto ready = devices.initialize(); !ready) return ready.error();
//     auto done = devices.run("inference", [&](const Device& device) { return infer(device); });
#pragma once

#include <chrono>
#include <cstdint>
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
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/manager/device.hpp"
#include "gpuwarden/manager/retry.hpp"
#include "gpuwarden/placement/request.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::manager {

/// Keys as cuda_config_from_json() reads them; times are seconds there.
struct CudaConfig {
  /// By NVML's index; empty: every visible GPU.
  std::optional<std::vector<std::uint32_t>> device_ids;
  bool enable_health_check = true;  ///< in a thread of its own, from initialize() on
  std::chrono::milliseconds health_check_interval{30000};
  unsigned max_retries = 3;  ///< attempts on one device, in all
  std::chrono::milliseconds retry_delay{100};
  double retry_backoff = 2;
  std::chrono::milliseconds retry_max_delay{10000};
  double retry_jitter = 0.2;
  bool enable_failover = true;  ///< work goes on on another device
  /// An unfit device is tried again after this, then ever more seldom, up to recovery_max_delay.
  std::chrono::milliseconds recovery_delay{10000};
  std::chrono::milliseconds recovery_max_delay{600000};

  bool operator==(const CudaConfig&) const = default;
};
nlohmann::json to_json(const CudaConfig& config);
/// Fails as gpu_config_from_json() does.
Result<CudaConfig> cuda_config_from_json(const nlohmann::json& json);
RetryPolicy retry_policy(const CudaConfig& config);

/// Where a CudaManager has its facts from.
struct CudaSources {
  /// Reads the GPUs; safe to call from several threads.
  std::function<facts::Snapshot(const probe::ReadRequest&)> read;
  placement::Visibility visibility;
  /// Who has disabled what; may be empty. Where it fails what it said last holds; where it never answered every GPU
  /// counts as disabled, with its error as the reason.
  std::function<Result<std::vector<facts::Disabling>>()> disabled;
  /// The CUDA driver, for contexts; empty: there is none that this process can use.
  std::filesystem::path cuda_library = "libcuda.so.1";
  /// Called when work on a device runs out of memory, before it is tried again; may be empty.
  std::function<void(const Device&)> out_of_memory;
  Clock* clock = &system_clock();
};

/// A managed GPU as it is now.
struct DeviceStatus {
  Device device;
  facts::Health health;
  std::optional<double> score;  ///< capability_score()
  unsigned in_use = 0;          ///< contexts and work of this program
  std::optional<facts::ComputeCapability> compute_capability;
  std::optional<Bytes> memory_total;
  std::optional<Bytes> memory_used;
};
nlohmann::json to_json(const DeviceStatus& status);

/// A failure on a device, as error callbacks hear it.
struct DeviceError {
  Device device;
  std::string operation;
  Error error;
  unsigned attempt = 1;
  bool will_retry = false;
  /// Where the work goes on, if not here; set with the last failure on a device.
  std::optional<Device> failover;
};
nlohmann::json to_json(const DeviceError& error);

/// Work that was done: where, and what failed before.
struct WorkDone {
  Device device;
  std::vector<DeviceError> failures;
};

/// Makes a device current for the calling thread while it lives, and counts as its use. On the CPU it does nothing.
class DeviceContext {
 public:
  DeviceContext(DeviceContext&&) noexcept;
  DeviceContext& operator=(DeviceContext&&) = delete;
  ~DeviceContext();
  const Device& device() const { return device_; }
  /// Why it is the CPU though a GPU was wanted; empty otherwise.
  const std::string& fallback() const { return fallback_; }

 private:
  friend class CudaManager;
  struct Hold;
  explicit DeviceContext(Device device) : device_(std::move(device)) {}
  Device device_;
  std::string fallback_;
  std::shared_ptr<Hold> hold_;
};

/// Thread-safe. Callbacks are called without a lock, from the thread in which it happens; they may call everything, and
/// destroy the manager.
class CudaManager {
 public:
  using Work = std::function<Result<void>(const Device&)>;

  CudaManager(CudaConfig config, CudaSources sources);
  CudaManager(const CudaManager&) = delete;
  CudaManager& operator=(const CudaManager&) = delete;
  ~CudaManager();  ///< as shutdown()

  /// Reads the devices, trying again while the driver does not answer, and begins health checks. A machine without
  /// GPUs, or whose driver never answers, is no failure: the CPU remains (see problem()). Fails with invalid_argument
  /// for a GPU of `device_ids` that does not exist or is hidden, interrupted on `stop`.
  Result<void> initialize(const std::stop_token& stop = {});
  bool initialized() const;
  /// Ends health checks.
  void shutdown();

  /// The managed GPUs in the order of `device_ids`, or of CUDA.
  std::vector<DeviceStatus> devices() const;
  /// Whether there is a GPU that work can be given to.
  bool has_gpu() const;
  /// Why there is none, or what restricts the choice; empty where all is well.
  std::string problem() const;
  bool simulated() const;
  std::optional<std::string> driver_version() const;

  /// The device with the highest score among those that are available, else among busy ones; the CPU where there is
  /// none. `except`: GPUs that are not wanted.
  Device best_device(const std::vector<GpuIndex>& except = {}) const;
  /// That GPU. Fails with invalid_argument for one that is not managed (the hint says which are), with unavailable for
  /// one that is unfit or disabled, with its reason.
  Result<Device> device(GpuIndex gpu) const;
  /// A context on that GPU, or on the best one; on the CPU where it cannot be used (fallback() says why). Fails with
  /// invalid_argument as device() does.
  Result<DeviceContext> enter(std::optional<GpuIndex> gpu = std::nullopt);

  /// Does the work on the best device (or `first`): tried again with backoff after transient failures, then on the next
  /// best device, at last on the CPU. A GPU on which all attempts failed is in error until it recovers; running out of
  /// memory does not make it so. Fails with the work's last error.
  Result<WorkDone> run(const std::string& operation, const Work& work, std::optional<GpuIndex> first = std::nullopt,
                       const std::stop_token& stop = {});

  /// The program's own word on a GPU: in error until it recovers. Fails as device() for one that is not managed.
  Result<void> report_error(GpuIndex gpu, const std::string& operation, const Error& error);
  /// Takes a GPU out of use in this program, and puts it back. Fail as report_error() does.
  Result<void> disable(GpuIndex gpu, const std::string& reason);
  Result<void> enable(GpuIndex gpu);

  /// Reads now and judges; what the background check does. Brings recovered devices back.
  void check();
  /// Judges a reading that somebody else made (a PerformanceMonitor).
  void observe(const telemetry::Reading& reading);

  void add_error_callback(std::function<void(const DeviceError&)> callback);
  /// Hears each change of a device's state.
  void add_state_callback(std::function<void(const DeviceStatus& before, const DeviceStatus& now)> callback);

 private:
  friend class DeviceContext;
  class Impl;
  Result<Device> wanted_device(std::optional<GpuIndex> gpu, std::string& fallback) const;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gpuwarden::manager
