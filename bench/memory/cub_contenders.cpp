// SPDX-License-Identifier: Apache-2.0
// cub::CachingDeviceAllocator, compiled as the CUDA toolkit ships it, over the runtime functions that it calls, which
// here count and cost what the simulated driver's cost. Bins grow by 2 from 512 B; the cache has no limit.
#include <cub/util_allocator.cuh>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "memory/adapted.hpp"

namespace gpuwarden::bench {
namespace {

/// The device that the runtime's functions work on: that of the one allocator at work.
struct Runtime {
  std::mutex mutex;  ///< cub allocates and frees without its own lock
  CountingDevice* device = nullptr;
  std::unordered_map<void*, std::uint64_t> sizes;
  std::deque<Moment> events;
  std::vector<Moment*> unused;
};

Runtime& runtime() {
  static Runtime one;
  return one;
}

class CubCaching {
 public:
  explicit CubCaching(const DeviceSpec& spec)
      : device_(spec.capacity, spec.price_factor),
        allocator_(2, 9, cub::CachingDeviceAllocator::INVALID_BIN - 1, cub::CachingDeviceAllocator::INVALID_SIZE) {
    runtime().device = &device_;
  }

  void allocate(Slot& slot, std::uint64_t size, std::uint32_t stream) {
    void* address = nullptr;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a stream here is a number
    const auto handle = reinterpret_cast<cudaStream_t>(std::uintptr_t{stream});
    if (allocator_.DeviceAllocate(0, &address, size, handle) != cudaSuccess)
      throw OutOfMemory("cub::CachingDeviceAllocator ran out of memory");
    slot.address = reinterpret_cast<std::uint64_t>(address);
  }

  /// It takes the block back on the stream that it was allocated on.
  void free(Slot& slot, std::uint32_t) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the simulated device
    allocator_.DeviceFree(0, reinterpret_cast<void*>(slot.address));
  }

  Footprint footprint() { return {device_.reserved, device_.peak_reserved, device_.driver.counts(), std::nullopt}; }
  Driver* driver() { return &device_.driver; }

 private:
  CountingDevice device_;
  cub::CachingDeviceAllocator allocator_;
};

}  // namespace

std::vector<Contender> cub_contenders() {
  return {{"cub::CachingDeviceAllocator", Contender::Kind::library, {}, [](const DeviceSpec& spec) {
             return std::make_unique<Adapted<CubCaching>>(spec);
           }}};
}

}  // namespace gpuwarden::bench

// The runtime functions that cub calls. Records and queries come under its lock.
extern "C" {
using gpuwarden::bench::runtime;

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMalloc(void** address, size_t size) {
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t found = runtime().device->allocate(size);
  if (found == 0) return cudaErrorMemoryAllocation;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the simulated device
  *address = reinterpret_cast<void*>(found);
  runtime().sizes[*address] = size;
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  const std::lock_guard lock(runtime().mutex);
  const auto found = runtime().sizes.find(address);
  if (found == runtime().sizes.end()) return cudaErrorInvalidValue;
  runtime().device->free(found->second);
  runtime().sizes.erase(found);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  if (all.unused.empty()) all.unused.push_back(&all.events.emplace_back());
  *event = reinterpret_cast<cudaEvent_t>(all.unused.back());
  all.unused.pop_back();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(runtime().mutex);
  runtime().unused.push_back(reinterpret_cast<gpuwarden::bench::Moment*>(event));
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  *reinterpret_cast<gpuwarden::bench::Moment*>(event) =
      runtime().device->driver.record(reinterpret_cast<std::uintptr_t>(stream));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const bool done = runtime().device->driver.is_done(*reinterpret_cast<gpuwarden::bench::Moment*>(event));
  return done ? cudaSuccess : cudaErrorNotReady;
}
}
