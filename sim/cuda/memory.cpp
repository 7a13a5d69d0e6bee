// SPDX-License-Identifier: Apache-2.0
// Device and host memory that is allocated and freed at once.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "sim/cuda/driver.hpp"
#include "sim/cuda/pools.hpp"

namespace gpuwarden::cuda {

using namespace server;

namespace server {

Segments::Upstream device_upstream(Driver& d, int ordinal) {
  return {[&d, ordinal](std::uint64_t size) -> std::uint64_t {
            if (d.take(ordinal, size) != kSuccess) return 0;
            const std::uint64_t base = Space::map_memory(size);
            if (base == 0) d.give(ordinal, size);
            return base;
          },
          [&d, ordinal](std::uint64_t base, std::uint64_t size) {
            Space::unmap_memory(base, size);
            d.give(ordinal, size);
          }};
}

}  // namespace server

namespace {

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Memory of the current context's device; small blocks share pages, large ones have their own.
Result allocate(Call& call, std::size_t bytes, DevicePointer* pointer) {
  if (bytes == 0) return kInvalidValue;
  if (bytes >= kTooLarge) return kOutOfMemory;
  Driver& d = call.driver;
  const int ordinal = call.context->device;
  call.mebibytes = mebibytes(bytes);
  Range range{.kind = RangeKind::device, .size = bytes, .device = ordinal, .context = call.context->handle};
  if (bytes < kSmallest) {
    range.base = call.device().small->take(bytes, nullptr, call.now(), {});
  } else {
    range.held = round_up(bytes, kPage);
    if (const Result taken = d.take(ordinal, range.held); taken != kSuccess) return taken;
    range.base = Space::map_memory(range.held);
    if (range.base == 0) d.give(ordinal, range.held);
  }
  if (range.base == 0) return kOutOfMemory;
  *pointer = d.space.add(std::move(range)).base;
  return kSuccess;
}

/// Frees what cuMemAlloc gave.
void free_device(Driver& d, const Range& range) {
  d.space.remove(range.base);
  const DeviceState& device = *d.device(range.device);
  if (range.held == 0) {
    device.small->give(range.base, nullptr, d.clock.now());
    device.small->trim(0, d.clock.now());
    return;
  }
  Space::unmap_memory(range.base, range.held);
  d.give(range.device, range.held);
}

/// Frees memory that no work uses any more; two threads may have waited to free the same.
Result free_now(DevicePointer pointer) {
  Driver& d = driver();
  const std::scoped_lock lock(d.mutex);
  const Range* found = d.closed ? nullptr : d.space.at(pointer);
  if (found == nullptr) return kInvalidValue;
  const Range range = *found;
  if (range.kind == RangeKind::device) return free_device(d, range), kSuccess;
  const Result freed = free_to_pool(d, range, nullptr, nullptr);
  d.trim_pools(range.device);
  return freed;
}

/// A page is the unit of the host's memory.
std::uint64_t host_size(std::uint64_t bytes) { return round_up(bytes, static_cast<std::uint64_t>(::getpagesize())); }

Result allocate_host(Call& call, void** pointer, std::size_t bytes, unsigned flags) {
  if (bytes == 0 || flags > (kHostPortable | kHostDeviceMap | kHostWriteCombined)) return kInvalidValue;
  if (bytes >= kTooLarge) return kOutOfMemory;
  call.mebibytes = mebibytes(bytes);
  void* memory =
      ::mmap(nullptr, host_size(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  call.driver.space.add({.kind = RangeKind::host,
                         .base = reinterpret_cast<std::uint64_t>(memory),
                         .size = bytes,
                         .device = call.context->device,
                         .context = call.context->handle,
                         .flags = flags | kHostDeviceMap});
  *pointer = memory;
  return kSuccess;
}

bool overlaps(Space& space, std::uint64_t base, std::uint64_t size) {
  if (space.around(base) != nullptr) return true;
  const Range* next = space.next(base);
  return next != nullptr && next->base - base < size;
}

}  // namespace

extern "C" {

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) {
    const auto memory = call.driver.fleet->memory(call.device().place);
    if (!memory) return kUnknown;
    *free = memory->free;
    *total = memory->total;
    return kSuccess;
  });
}

Result cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  if (pointer == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) { return allocate(call, bytes, pointer); });
}

Result cuMemAllocPitch_v2(DevicePointer* pointer, std::size_t* pitch, std::size_t width, std::size_t height,
                          unsigned element) {
  if (pointer == nullptr || pitch == nullptr || (element != 4 && element != 8 && element != 16)) return kInvalidValue;
  return with_context("cuMemAlloc_v2", [&](Call& call) {
    if (width == 0 || height == 0 || width >= kTooLarge) return kInvalidValue;
    const std::uint64_t row = round_up(width, kAlignment);
    if (height >= kTooLarge / row) return kOutOfMemory;
    const Result result = allocate(call, row * height, pointer);
    if (result == kSuccess) *pitch = row;
    return result;
  });
}

Result cuMemFree_v2(DevicePointer pointer) {
  // First all work on the device must be over; only then may somebody else have the memory.
  const Result over = with_context(__func__, [&](Call& call) {
    if (pointer == 0) return kSuccess;
    const Range* range = call.driver.space.at(pointer);
    if (range == nullptr || (range->kind != RangeKind::pool && range->kind != RangeKind::device)) return kInvalidValue;
    call.mebibytes = mebibytes(range->size);
    const auto owner = call.driver.contexts.find(range->context);
    if (owner != call.driver.contexts.end()) call.wait_until = owner->second->timeline.end();
    return kSuccess;
  });
  return over == kSuccess && pointer != 0 ? free_now(pointer) : over;
}

Result cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* size, DevicePointer pointer) {
  return with_context(__func__, [&](Call& call) {
    const Range* range = call.driver.space.around(pointer);
    if (range == nullptr) return kNotFound;
    if (base != nullptr) *base = range->base;
    if (size != nullptr) *size = range->size;
    return kSuccess;
  });
}

Result cuMemAllocHost_v2(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) { return allocate_host(call, pointer, bytes, 0); });
}

Result cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  if (pointer == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) { return allocate_host(call, pointer, bytes, flags); });
}

Result cuMemFreeHost(void* pointer) {
  return with_context(__func__, [&](Call& call) {
    const auto base = reinterpret_cast<std::uint64_t>(pointer);
    const Range* range = call.driver.space.at(base);
    if (range == nullptr || range->kind != RangeKind::host) return kInvalidValue;
    call.mebibytes = mebibytes(range->size);
    Space::unmap_memory(base, host_size(range->size));
    call.driver.space.remove(base);
    return kSuccess;
  });
}

Result cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned flags) {
  if (pointer == nullptr || bytes == 0 || bytes >= kTooLarge || (flags & ~0xFU) != 0) return kInvalidValue;
  if ((flags & kRegisterIoMemory) != 0) return kNotSupported;
  return with_context(__func__, [&](Call& call) {
    const auto base = reinterpret_cast<std::uint64_t>(pointer);
    if (overlaps(call.driver.space, base, bytes)) return kHostMemoryAlreadyRegistered;
    call.mebibytes = mebibytes(bytes);
    call.driver.space.add({.kind = RangeKind::registered,
                           .base = base,
                           .size = bytes,
                           .device = call.context->device,
                           .context = call.context->handle,
                           .flags = flags | kHostDeviceMap});
    return kSuccess;
  });
}

Result cuMemHostUnregister(void* pointer) {
  return with_context(__func__, [&](Call& call) {
    const auto base = reinterpret_cast<std::uint64_t>(pointer);
    const Range* range = call.driver.space.at(base);
    if (range == nullptr || range->kind != RangeKind::registered) return kHostMemoryNotRegistered;
    call.driver.space.remove(base);
    return kSuccess;
  });
}

Result cuMemHostGetDevicePointer_v2(DevicePointer* device, void* pointer, unsigned flags) {
  if (device == nullptr || flags != 0) return kInvalidValue;
  return with_context(__func__, [&](Call& call) {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    const Range* range = call.driver.space.around(address);
    if (range == nullptr || (range->kind != RangeKind::host && range->kind != RangeKind::registered))
      return kInvalidValue;
    return *device = address, kSuccess;  // one address space for host and devices
  });
}

Result cuMemHostGetFlags(unsigned* flags, void* pointer) {
  if (flags == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) {
    const Range* range = call.driver.space.around(reinterpret_cast<std::uint64_t>(pointer));
    if (range == nullptr || range->kind != RangeKind::host) return kInvalidValue;
    return *flags = range->flags, kSuccess;
  });
}

}  // extern "C"
}  // namespace gpuwarden::cuda
