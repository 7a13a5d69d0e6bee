// SPDX-License-Identifier: Apache-2.0
// A pool as a memory resource of CCCL (cuda::mr), for libraries that take one. Needs CCCL's headers, which come with
// the CUDA toolkit, and does nothing without them. CCCL's names changed: up to 3.1 stream-ordered calls are
// allocate_async/deallocate_async(…, stream) and synchronous ones allocate/deallocate, from 3.2 on they are
// allocate/deallocate(stream, …) and allocate_sync/deallocate_sync; this has both (source: <cuda/memory_resource> of
// CCCL 3.0.1 in CUDA 13.0, and of CCCL's main branch). Up to 3.1 the concepts need
// LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE before the first include of CCCL.
#pragma once

#if __has_include(<cuda/memory_resource>) && __has_include(<cuda/stream_ref>)
#define GPUWARDEN_HAS_CCCL 1

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <new>
#include <stdexcept>
#include <string>

#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden::memory {

/// Out of memory, as CCCL wants to hear it, with the pool's report.
class CcclBadAlloc final : public std::bad_alloc {
 public:
  explicit CcclBadAlloc(const Error& error) : text_(error.message) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Refers to a pool and to the device it stands on, which must outlive it. Copies are the same resource.
class CcclResource {
 public:
  CcclResource(Pool& pool, Upstream& device) : pool_(&pool), device_(&device) {}

  /// Throws CcclBadAlloc.
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = kDefaultAlignment) {
    const auto address = pool_->allocate(Bytes(bytes), id_of(stream), aligned(alignment));
    if (!address) throw CcclBadAlloc(address.error());
    return reinterpret_cast<void*>(address->value);  // NOLINT(performance-no-int-to-ptr)
  }
  /// Throws std::logic_error for what the pool never gave out, or has back already.
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t, std::size_t = kDefaultAlignment) {
    give_back(pointer, id_of(stream));
  }

  /// Memory that may be used on any stream at once.
  void* allocate_sync(std::size_t bytes, std::size_t alignment = kDefaultAlignment) {
    const auto address = pool_->allocate(Bytes(bytes), {}, aligned(alignment));
    if (!address) throw CcclBadAlloc(address.error());
    if (const auto ready = wait_for_default_stream(); !ready) {
      static_cast<void>(pool_->deallocate(*address, {}));
      throw CcclBadAlloc(ready.error());
    }
    return reinterpret_cast<void*>(address->value);  // NOLINT(performance-no-int-to-ptr)
  }
  /// All work on it is done.
  void deallocate_sync(void* pointer, std::size_t, std::size_t = kDefaultAlignment) { give_back(pointer, {}); }

  void* allocate_async(std::size_t bytes, std::size_t alignment, cuda::stream_ref stream) {
    return allocate(stream, bytes, alignment);
  }
  void* allocate_async(std::size_t bytes, cuda::stream_ref stream) { return allocate(stream, bytes); }
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t alignment, cuda::stream_ref stream) {
    deallocate(stream, pointer, bytes, alignment);
  }
  void deallocate_async(void* pointer, std::size_t bytes, cuda::stream_ref stream) {
    deallocate(stream, pointer, bytes);
  }
  void* allocate(std::size_t bytes, std::size_t alignment = kDefaultAlignment) {
    return allocate_sync(bytes, alignment);
  }
  void deallocate(void* pointer, std::size_t bytes, std::size_t alignment = kDefaultAlignment) {
    deallocate_sync(pointer, bytes, alignment);
  }

  bool operator==(const CcclResource& other) const { return pool_ == other.pool_; }
  friend void get_property(const CcclResource&, cuda::mr::device_accessible) noexcept {}

 private:
  static constexpr std::size_t kDefaultAlignment = 256;  // what CUDA promises

  static StreamId id_of(cuda::stream_ref stream) { return {reinterpret_cast<std::uintptr_t>(stream.get())}; }
  static Bytes aligned(std::size_t alignment) { return std::max(Bytes(alignment), kGrain); }

  void give_back(void* pointer, StreamId stream) {
    const auto given = pool_->deallocate({reinterpret_cast<std::uintptr_t>(pointer)}, stream);
    if (!given) throw std::logic_error(given.error().message);
  }
  Result<void> wait_for_default_stream() {
    GPUWARDEN_TRY(const EventHandle event, device_->record({}));
    const auto done = device_->synchronize(event);
    static_cast<void>(device_->forget(event));
    return done;
  }

  Pool* pool_;
  Upstream* device_;
};

}  // namespace gpuwarden::memory

#endif  // CCCL's headers
