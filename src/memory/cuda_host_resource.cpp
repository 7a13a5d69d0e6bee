// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <new>
#include <utility>

#include "gpuwarden/memory/host_resource.hpp"
#include "memory/cuda_device.hpp"

namespace gpuwarden::memory {
namespace {

/// The alignment of what cuMemHostAlloc gives: whole pages of the host.
constexpr std::size_t kHostPage = 4096;
constexpr std::size_t kLargestSmall = std::size_t{1} << 20U;

bool is_large(std::size_t bytes, std::size_t alignment) { return bytes > kLargestSmall || alignment > kHostPage; }

/// Rounded up to an eighth of the power of two below: at most 12.5% are wasted.
std::size_t class_of(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Result<std::unique_ptr<PinnedHostResource>> PinnedHostResource::open(const CudaOptions& options) {
  GPUWARDEN_TRY(auto device, CudaDevice::open(options));
  return std::unique_ptr<PinnedHostResource>(new PinnedHostResource(std::move(device)));
}

void* PinnedHostResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  const auto scope = device_->enter();
  if (!scope || alignment > kHostPage) throw std::bad_alloc();
  void* pointer = nullptr;
  if (device_->driver().cuMemHostAlloc(&pointer, bytes == 0 ? 1 : bytes, cuda::kHostPortable) != cuda::kSuccess)
    throw std::bad_alloc();
  return pointer;
}

void PinnedHostResource::do_deallocate(void* pointer, std::size_t, std::size_t) {
  // Nobody can be told that it failed; what a lost context pinned is free anyway.
  if (const auto scope = device_->enter()) device_->driver().cuMemFreeHost(pointer);
}

HostPoolResource::HostPoolResource(std::pmr::memory_resource& upstream)
    : upstream_(upstream),
      small_(std::pmr::pool_options{.max_blocks_per_chunk = 0, .largest_required_pool_block = kLargestSmall},
             &upstream) {}

HostPoolResource::~HostPoolResource() { trim(); }

void* HostPoolResource::take_cached(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = large_.find(bytes);
  if (found == large_.end() || found->second.empty()) return nullptr;
  void* const pointer = found->second.back();
  found->second.pop_back();
  return pointer;
}

void* HostPoolResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (!is_large(bytes, alignment)) return small_.allocate(bytes, alignment);
  // Of such alignments and sizes nothing is kept; the upstream says what it thinks of them.
  if (alignment > kHostPage || bytes >= std::size_t{1} << 62U) return upstream_.allocate(bytes, alignment);
  const std::size_t size = class_of(bytes);
  if (void* const pointer = take_cached(size)) return pointer;
  try {
    return upstream_.allocate(size, kHostPage);
  } catch (const std::bad_alloc&) {
    if (trim().value == 0) throw;
  }
  return upstream_.allocate(size, kHostPage);
}

void HostPoolResource::do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) {
  if (!is_large(bytes, alignment)) return small_.deallocate(pointer, bytes, alignment);
  if (alignment > kHostPage || bytes >= std::size_t{1} << 62U) return upstream_.deallocate(pointer, bytes, alignment);
  const std::lock_guard lock(mutex_);
  large_[class_of(bytes)].push_back(pointer);
}

Bytes HostPoolResource::trim() {
  std::map<std::size_t, std::vector<void*>> unused;
  {
    const std::lock_guard lock(mutex_);
    std::swap(unused, large_);
  }
  Bytes total;
  for (const auto& [size, pointers] : unused) {
    for (void* const pointer : pointers) upstream_.deallocate(pointer, size, kHostPage);
    total += Bytes(size * pointers.size());
  }
  return total;
}

Bytes HostPoolResource::cached() const {
  const std::lock_guard lock(mutex_);
  Bytes total;
  for (const auto& [size, pointers] : large_) total += Bytes(size * pointers.size());
  return total;
}

}  // namespace gpuwarden::memory
