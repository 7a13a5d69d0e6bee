// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/pools.hpp"

#include <algorithm>
#include <limits>

namespace gpuwarden::cuda {

using namespace server;

namespace server {

std::uintptr_t Driver::make_pool(int ordinal, std::uint64_t largest) {
  const std::uintptr_t handle = next_name();
  PoolState& pool = pools[handle];
  pool.handle = handle;
  pool.device = ordinal;
  pool.largest = largest;
  const auto upstream = device_upstream(*this, ordinal);
  const auto grow = [this, handle, take = upstream.grow](std::uint64_t size) -> std::uint64_t {
    const PoolState& mine = pools.at(handle);
    const bool fits = mine.largest == 0 || mine.segments->reserved() + size <= mine.largest;
    return fits ? take(size) : 0;
  };
  pool.segments = std::make_unique<Segments>(kPoolSegment, kAlignment, Segments::Upstream{grow, upstream.shrink});
  return handle;
}

Result free_to_pool(Driver& d, const Range& block, StreamState* stream, ContextState* owner) {
  const auto pool = d.pools.find(block.pool);
  if (pool == d.pools.end()) return kInvalidValue;
  const Moment now = d.clock.now();
  if (stream != nullptr) owner->timeline.enqueue(*stream, now, 0);
  pool->second.segments->give(block.base, stream, now);
  d.space.remove(block.base);
  if (pool->second.dying && pool->second.segments->used() == 0) {
    pool->second.segments->clear();
    d.pools.erase(pool);
  }
  return kSuccess;
}

}  // namespace server

namespace {

PoolState* find(Driver& d, MemoryPool name) {
  const auto found = d.pools.find(reinterpret_cast<std::uintptr_t>(name));
  return found == d.pools.end() || found->second.dying ? nullptr : &found->second;
}

MemoryPool name_of(std::uintptr_t handle) {
  return reinterpret_cast<MemoryPool>(handle);  // NOLINT(performance-no-int-to-ptr): a number, not an address
}

Result allocate(Call& call, PoolState& pool, std::size_t bytes, Stream name, DevicePointer* pointer) {
  if (bytes == 0) return kInvalidValue;
  Driver& d = call.driver;
  ContextState* owner = nullptr;
  StreamState* stream = d.stream(name, call.context, owner);
  if (stream == nullptr) return kInvalidHandle;
  owner->timeline.enqueue(*stream, call.now(), 0);
  const std::uint64_t base = pool.segments->take(bytes, stream, call.now(), pool.rules);
  if (base == 0) return kOutOfMemory;
  d.space.add({.kind = RangeKind::pool,
               .base = base,
               .size = bytes,
               .device = pool.device,
               .context = owner->handle,
               .pool = pool.handle});
  *pointer = base;
  return kSuccess;
}

/// Runs `body(Driver&, DeviceState&)` for a device that there is.
template <class Body>
Result with_device(const char* function, Device ordinal, const Body& body) {
  return with_driver(function, [&](Call& call) {
    DeviceState* device = call.driver.device(ordinal);
    return device == nullptr ? kInvalidDevice : body(call.driver, *device);
  });
}

template <class Body>
Result with_pool(const char* function, MemoryPool name, const Body& body) {
  return with_driver(function, [&](Call& call) {
    PoolState* pool = find(call.driver, name);
    return pool == nullptr ? kInvalidValue : body(call.driver, *pool);
  });
}

bool* rule_of(PoolState& pool, int which) {
  switch (which) {
    case kPoolFollowEventDependencies:
      return &pool.rules.follow_event_dependencies;
    case kPoolAllowOpportunistic:
      return &pool.rules.allow_opportunistic;
    case kPoolAllowInternalDependencies:
      return &pool.rules.allow_internal_dependencies;
    default:
      return nullptr;
  }
}

std::optional<std::uint64_t> figure_of(const PoolState& pool, int which) {
  switch (which) {
    case kPoolReleaseThreshold:
      return pool.threshold;
    case kPoolReservedCurrent:
      return pool.segments->reserved();
    case kPoolReservedHigh:
      return pool.segments->reserved_high;
    case kPoolUsedCurrent:
      return pool.segments->used();
    case kPoolUsedHigh:
      return pool.segments->used_high;
    default:
      return std::nullopt;
  }
}

}  // namespace

extern "C" {

Result cuDeviceGetDefaultMemPool(MemoryPool* pool, Device ordinal) {
  if (pool == nullptr) return kInvalidValue;
  return with_device(__func__, ordinal,
                     [&](Driver&, DeviceState& device) { return *pool = name_of(device.default_pool), kSuccess; });
}

Result cuDeviceGetMemPool(MemoryPool* pool, Device ordinal) {
  if (pool == nullptr) return kInvalidValue;
  return with_device(__func__, ordinal,
                     [&](Driver&, DeviceState& device) { return *pool = name_of(device.pool), kSuccess; });
}

Result cuDeviceSetMemPool(Device ordinal, MemoryPool name) {
  return with_device(__func__, ordinal, [&](Driver& d, DeviceState& device) {
    const PoolState* pool = find(d, name);
    if (pool == nullptr || pool->device != ordinal) return kInvalidValue;
    return device.pool = pool->handle, kSuccess;
  });
}

Result cuMemAllocAsync(DevicePointer* pointer, std::size_t bytes, Stream stream) {
  if (pointer == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) {
    ContextState* owner = nullptr;
    if (call.driver.stream(stream, call.context, owner) == nullptr) return kInvalidHandle;
    PoolState& pool = call.driver.pools.at(call.driver.device(owner->device)->pool);
    return allocate(call, pool, bytes, stream, pointer);
  });
}

Result cuMemAllocFromPoolAsync(DevicePointer* pointer, std::size_t bytes, MemoryPool name, Stream stream) {
  if (pointer == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) {
    PoolState* pool = find(call.driver, name);
    return pool == nullptr ? kInvalidValue : allocate(call, *pool, bytes, stream, pointer);
  });
}

Result cuMemFreeAsync(DevicePointer pointer, Stream name) {
  bool is_plain = false;
  const Result result = with_context(__func__, [&](Call& call) {
    const Range* range = call.driver.space.at(pointer);
    ContextState* owner = nullptr;
    StreamState* stream = call.driver.stream(name, call.context, owner);
    if (stream == nullptr) return kInvalidHandle;
    is_plain = range != nullptr && range->kind == RangeKind::device;
    if (range == nullptr || (range->kind != RangeKind::pool && !is_plain)) return kInvalidValue;
    return is_plain ? kSuccess : free_to_pool(call.driver, Range(*range), stream, owner);
  });
  // Memory of cuMemAlloc may be freed so, too (source: CUDA C programming guide, stream-ordered allocation).
  return result == kSuccess && is_plain ? cuMemFree_v2(pointer) : result;
}

Result cuMemPoolCreate(MemoryPool* pool, const PoolProperties* properties) {
  if (pool == nullptr || properties == nullptr || properties->type != kAllocationPinned) return kInvalidValue;
  if (properties->handle_types != kHandleNone || properties->location.type != kLocationDevice) return kNotSupported;
  return with_device(__func__, properties->location.id, [&](Driver& d, DeviceState&) {
    return *pool = name_of(d.make_pool(properties->location.id, properties->max_size)), kSuccess;
  });
}

Result cuMemPoolDestroy(MemoryPool name) {
  return with_pool(__func__, name, [&](Driver& d, PoolState& pool) {
    DeviceState& device = *d.device(pool.device);
    if (pool.handle == device.default_pool) return kInvalidValue;
    if (pool.handle == device.pool) device.pool = device.default_pool;
    // Blocks that are still out keep it alive.
    pool.dying = true;
    if (pool.segments->used() > 0) return kSuccess;
    pool.segments->clear();
    d.pools.erase(pool.handle);
    return kSuccess;
  });
}

Result cuMemPoolSetAttribute(MemoryPool name, int which, void* value) {
  if (value == nullptr) return kInvalidValue;
  return with_pool(__func__, name, [&](Driver&, PoolState& pool) {
    if (bool* rule = rule_of(pool, which)) return *rule = *static_cast<int*>(value) != 0, kSuccess;
    const std::uint64_t figure = *static_cast<std::uint64_t*>(value);
    if (which == kPoolReleaseThreshold) return pool.threshold = figure, kSuccess;
    // High marks can only be reset.
    if (figure != 0) return kInvalidValue;
    if (which == kPoolReservedHigh) return pool.segments->reserved_high = pool.segments->reserved(), kSuccess;
    if (which == kPoolUsedHigh) return pool.segments->used_high = pool.segments->used(), kSuccess;
    return kInvalidValue;
  });
}

Result cuMemPoolGetAttribute(MemoryPool name, int which, void* value) {
  if (value == nullptr) return kInvalidValue;
  return with_pool(__func__, name, [&](Driver&, PoolState& pool) {
    if (const bool* rule = rule_of(pool, which)) return *static_cast<int*>(value) = *rule ? 1 : 0, kSuccess;
    const auto figure = figure_of(pool, which);
    if (!figure) return kInvalidValue;
    return *static_cast<std::uint64_t*>(value) = *figure, kSuccess;
  });
}

Result cuMemPoolTrimTo(MemoryPool name, std::size_t keep) {
  return with_pool(__func__, name,
                   [&](Driver& d, PoolState& pool) { return pool.segments->trim(keep, d.clock.now()), kSuccess; });
}

Result cuMemPoolSetAccess(MemoryPool name, const AccessDescriptor* access, std::size_t count) {
  if (access == nullptr && count > 0) return kInvalidValue;
  return with_pool(__func__, name, [&](Driver& d, PoolState& pool) {
    for (std::size_t i = 0; i < count; ++i) {
      const Location& location = access[i].location;
      if (location.type != kLocationDevice) return kNotSupported;
      if (d.device(location.id) == nullptr) return kInvalidDevice;
      // The pool's own device cannot be shut out.
      if (location.id == pool.device && access[i].flags != kAccessReadWrite) return kInvalidValue;
      pool.access[location.id] = access[i].flags;
    }
    return kSuccess;
  });
}

Result cuMemPoolGetAccess(int* flags, MemoryPool name, Location* location) {
  if (flags == nullptr || location == nullptr || location->type != kLocationDevice) return kInvalidValue;
  return with_pool(__func__, name, [&](Driver& d, PoolState& pool) {
    if (d.device(location->id) == nullptr) return kInvalidDevice;
    const auto found = pool.access.find(location->id);
    *flags = location->id == pool.device ? kAccessReadWrite : found != pool.access.end() ? found->second : kAccessNone;
    return kSuccess;
  });
}

}  // extern "C"
}  // namespace gpuwarden::cuda
