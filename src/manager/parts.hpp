// SPDX-License-Identifier: Apache-2.0
// What a GpuManager holds: a reader that threads share, and the parts that initialize() makes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "gpuwarden/manager/gpu_manager.hpp"

namespace gpuwarden::manager {

/// Reads for one caller after another.
struct GpuManager::Reader {
  Reader(std::function<facts::Snapshot(const probe::ReadRequest&)> given, probe::ReaderOptions options)
      : given_(std::move(given)), options_(std::move(options)) {}

  facts::Snapshot read(const probe::ReadRequest& request) {
    const std::scoped_lock lock(mutex_);
    if (given_) return given_(request);
    if (!machine_) machine_.emplace(options_);
    return machine_->read(request);
  }

 private:
  std::mutex mutex_;
  const std::function<facts::Snapshot(const probe::ReadRequest&)> given_;
  const probe::ReaderOptions options_;
  std::optional<probe::MachineReader> machine_;
};

struct GpuManager::Parts {
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  /// A monitor that one of its own callbacks ends still calls the others of that reading.
  ~Parts() {
    if (monitor) monitor->telemetry().remove_callback(observer);
  }

  std::shared_ptr<ReleaseBook> releases = std::make_shared<ReleaseBook>();
  std::unique_ptr<CudaManager> cuda;
  std::map<std::optional<GpuIndex>, std::unique_ptr<MemoryManager>> memory;
  std::optional<DistributedSetup> distributed;
  telemetry::CallbackId observer{};
  std::unique_ptr<PerformanceMonitor> monitor;  ///< last: its readings reach the devices
};

}  // namespace gpuwarden::manager
