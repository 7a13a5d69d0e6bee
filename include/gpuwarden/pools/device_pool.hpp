// SPDX-License-Identifier: Apache-2.0
// A pool on a GPU of this machine in one call: the CUDA driver below it, a limit of one's own, who else holds memory in
// its reports. What the C library and the PyTorch allocator are made of.
//
//   auto pool = DevicePool::open({.cuda = {.device = CudaOrdinal{0}}, .limit =
//   memory::parse_memory_limit("80%").value()}).value(); auto address = pool->pool().allocate(1_MiB, stream);
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gpuwarden/memory/budget.hpp"
#include "gpuwarden/memory/cuda_upstream.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "gpuwarden/memory/trimmer.hpp"

namespace gpuwarden::pools {

/// Which processes hold how much of a device, as NVML says, in a sentence for an out-of-memory report: "process 4711
/// (python) holds 10240.0 MiB of it". The caller's own is left out; where NVML does not tell, it says so. Asks NVML in
/// this process, which takes milliseconds, and as long as the driver if that hangs.
std::string who_holds(const Uuid& gpu, const std::filesystem::path& nvml = "libnvidia-ml.so.1");

struct DevicePoolOptions {
  memory::CudaOptions cuda;
  std::string strategy;  ///< its name; empty: the default one
  memory::MemoryLimit limit;
  Bytes keep_free;  ///< stays free on the device for others
  /// When all else has failed, so long is waited for other processes to give memory back.
  std::chrono::milliseconds wait_for_others{0};
  /// What the pool has not needed for so long goes back to the device in the background; 0: nothing does.
  std::chrono::milliseconds trim_after{0};
  /// As in memory::PoolConfig.
  std::function<void(const memory::OutOfMemoryReport&)> on_out_of_memory;
};

/// The upstream and the pool on it. Safe to use from several threads.
class DevicePool {
 public:
  /// Fails as CudaUpstream::open() and Pool::create() do; invalid_argument: there is no such strategy.
  static Result<std::unique_ptr<DevicePool>> open(const DevicePoolOptions& options);
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;
  /// Gives everything back, live or not.
  ~DevicePool() = default;

  memory::Pool& pool() { return *pool_; }
  memory::CudaUpstream& device() { return *device_; }
  const memory::Strategy& strategy() const { return *strategy_; }

  /// Puts other limits in place of those that hold, as Pool::set_limit(); without `soft` there is no soft one.
  Result<void> set_limit(const memory::MemoryLimit& limit, const std::optional<memory::MemoryLimit>& soft = {});

 private:
  DevicePool() = default;

  Bytes total_;
  const memory::Strategy* strategy_ = nullptr;
  std::unique_ptr<memory::CudaUpstream> device_;
  std::unique_ptr<memory::Pool> pool_;
  std::optional<memory::Trimmer> trimmer_;  ///< ends before the pool does
};

}  // namespace gpuwarden::pools
