// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's own ways to give out memory, as DeviceResource: stream-ordered from a pool of the driver's
// (cudaMallocAsync), and directly (cudaMalloc). For devices without virtual memory management, and to be compared with.
#pragma once

#include <memory>
#include <optional>

#include "gpuwarden/memory/cuda_upstream.hpp"
#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

struct AsyncPoolOptions {
  CudaOptions cuda;
  /// Memory that the driver's pool holds beyond this goes back to the device when a stream is synchronised; empty: all
  /// of it stays until trim().
  std::optional<Bytes> release_threshold;
};

/// A memory pool of the driver's (CUDA 11.2 and later). When it says that memory is out, the stream is synchronised and
/// the pool trimmed, and it is asked once more. Safe to use from several threads. Sizes of live blocks are kept, so
/// that what was never given out, or is given back twice or with another size, is refused with invalid_argument.
class AsyncPoolResource {
 public:
  /// Fails as CudaUpstream::open() does; unavailable: the driver or the device has no such pools.
  static Result<std::unique_ptr<AsyncPoolResource>> open(const AsyncPoolOptions& options);
  AsyncPoolResource(const AsyncPoolResource&) = delete;
  AsyncPoolResource& operator=(const AsyncPoolResource&) = delete;
  /// Destroys the driver's pool; what is live stays so until it is freed.
  ~AsyncPoolResource();

  /// Fails with invalid_argument on 0 bytes and on the per-thread default stream, with unsatisfied where memory is out,
  /// and with unavailable where the driver or the device does not answer any more.
  Result<DeviceAddress> allocate(Bytes size, StreamId stream);
  /// In the stream's order. Fails with invalid_argument on what is not live with this size and on the per-thread
  /// default stream, and with unavailable as allocate() does; the block is live then as before.
  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream);

  // These fail with unavailable, as allocate() does.
  /// Gives memory back to the device until the pool holds no more than `keep`.
  Result<void> trim(Bytes keep = Bytes{});
  /// What the driver's pool holds of the device, and how much of it is live (CU_MEMPOOL_ATTR_*_CURRENT).
  Result<Bytes> reserved() const;
  Result<Bytes> used() const;

 private:
  struct State;
  explicit AsyncPoolResource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// cuMemAlloc and cuMemFree at every call. A free waits for all work of the device, as the driver does.
class DirectResource {
 public:
  /// Fails with not_found (no library, no such device), unavailable (the driver does not start) and permission_denied
  /// (the device's compute mode allows no context here).
  static Result<std::unique_ptr<DirectResource>> open(const CudaOptions& options);
  DirectResource(const DirectResource&) = delete;
  DirectResource& operator=(const DirectResource&) = delete;
  ~DirectResource();

  /// Fails with invalid_argument on 0 bytes, with unsatisfied where memory is out, and with unavailable where the
  /// driver or the device does not answer any more. The stream means nothing.
  Result<DeviceAddress> allocate(Bytes size, StreamId stream);
  /// Fails with invalid_argument on what is not live with this size, and with unavailable as allocate() does.
  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream);

 private:
  struct State;
  explicit DirectResource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpuwarden::memory
