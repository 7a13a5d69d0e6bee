// SPDX-License-Identifier: Apache-2.0
// A real GPU's memory (or a simulated one's, which is the same here): address space, pages and events of the CUDA
// driver, whose library is opened at run time.
//
//   auto device = CudaUpstream::open({.device = CudaOrdinal{0}}).value();
//   auto pool = Pool::create(*device, {}).value();
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/memory/upstream.hpp"

namespace gpuwarden::memory {

/// Which context the driver is called in.
enum class CudaContext {
  primary,  ///< the device's primary one, which the CUDA runtime and PyTorch use; kept alive by this
  current,  ///< the one that is current where this is opened; it has to outlive this
};

/// Which device, and how it is used.
struct CudaOptions {
  CudaOrdinal device;  ///< in CUDA's order, among the devices that CUDA_VISIBLE_DEVICES leaves
  Uuid uuid;           ///< if set, the device with it instead; with "GPU-" or "MIG-" in front, or neither
  CudaContext context = CudaContext::primary;
  bool exportable = false;  ///< pages can be handed to other processes as POSIX file descriptors
  std::filesystem::path library = "libcuda.so.1";
};

class CudaDevice;

/// The CUDA driver's virtual memory management (CUDA 10.2 and later). Calls may come from any thread, whatever context
/// is current there. A driver's error keeps its name in the message; out of memory is unsatisfied, a context that is
/// destroyed or answers every call with an error is unavailable, anything else failed. After fork() the child's calls
/// are unavailable. The device's own streams may be used as StreamId: created ones, and 0 for the legacy default
/// stream; the per-thread default stream (2) is another one in each thread and is refused.
class CudaUpstream final : public Upstream {
 public:
  /// not_found: no library, no such device; unavailable: the driver does not start, or has no virtual memory
  /// management; permission_denied: the device's compute mode allows no context here.
  static Result<std::unique_ptr<CudaUpstream>> open(const CudaOptions& options);
  ~CudaUpstream() override;

  Result<DeviceAddress> reserve(Bytes size) override;
  Result<void> release(DeviceAddress address, Bytes size) override;
  Result<void> create(std::span<PageHandle> pages) override;
  Result<void> destroy(std::span<const PageHandle> pages) override;
  /// One cuMemMap for each piece, and one cuMemSetAccess for all.
  Result<void> map(DeviceAddress address, std::span<const PageHandle> pages) override;
  /// One cuMemUnmap for all.
  Result<void> unmap(DeviceAddress address, Bytes size) override;
  /// invalid_argument: the per-thread default stream.
  Result<void> accepts(StreamId stream) override;
  /// Events have no timing, and are used again after forget().
  Result<EventHandle> record(StreamId stream) override;
  Result<bool> is_done(EventHandle event) override;
  Result<void> wait(StreamId stream, EventHandle event) override;
  Result<void> synchronize(EventHandle event) override;
  Result<void> forget(EventHandle event) override;
  /// False also where the driver knows no graphs (before CUDA 10.0).
  bool is_capturing(StreamId stream) override;
  Result<void> copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) override;
  Result<DeviceMemory> memory() override;

  /// Blocks until all work of the context is done.
  Result<void> synchronize_context();
  /// A page as a file descriptor, which another process imports with cuMemImportFromShareableHandle.
  /// invalid_argument: `exportable` was not set.
  Result<UniqueFd> export_page(PageHandle page);

  /// "GPU-…" as NVML spells it; empty where the driver does not tell (before CUDA 9.2).
  Uuid uuid() const;
  CudaOrdinal device() const;

 private:
  explicit CudaUpstream(std::shared_ptr<const CudaDevice> device, bool exportable);

  std::shared_ptr<const CudaDevice> device_;
  const bool exportable_;
  std::mutex mutex_;
  std::vector<EventHandle> events_;  ///< that nobody uses
};

}  // namespace gpuwarden::memory
