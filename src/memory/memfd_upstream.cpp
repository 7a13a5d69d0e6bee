// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gpuwarden/memory/host_upstreams.hpp"

namespace gpuwarden::memory {
namespace {

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Address space that faults when it is touched, at `address` or anywhere.
void* map_nothing(std::uint64_t address, std::uint64_t size) {
  const int fixed = address != 0 ? MAP_FIXED : 0;
  return ::mmap(pointer(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
}

}  // namespace

Result<std::unique_ptr<MemfdUpstream>> MemfdUpstream::open(Bytes capacity) {
  UniqueFd file(::memfd_create("gpuwarden-device", MFD_CLOEXEC));
  if (file.get() < 0) return std::unexpected(error_from_errno(errno, "cannot create a memory file"));
  if (::ftruncate(file.get(), static_cast<off_t>(capacity.value)) != 0)
    return std::unexpected(error_from_errno(errno, fmt::format("cannot size a memory file to {}", capacity.value)));
  return std::unique_ptr<MemfdUpstream>(new MemfdUpstream(std::move(file), capacity));
}

Result<DeviceAddress> MemfdUpstream::reserve(Bytes size) {
  // A page more than asked for, so that an aligned start is in it; the rest is given back at once.
  void* const start = map_nothing(0, size.value + kPage.value);
  if (start == MAP_FAILED) return std::unexpected(error_from_errno(errno, "cannot reserve address space"));
  const auto raw = reinterpret_cast<std::uint64_t>(start);
  const std::uint64_t aligned = (raw + kPage.value - 1) / kPage.value * kPage.value;
  if (aligned != raw) ::munmap(start, aligned - raw);
  if (const std::uint64_t rest = raw + kPage.value - aligned; rest != 0) ::munmap(pointer(aligned + size.value), rest);
  return DeviceAddress{aligned};
}

Result<void> MemfdUpstream::release(DeviceAddress address, Bytes size) {
  if (::munmap(pointer(address.value), size.value) != 0)
    return std::unexpected(error_from_errno(errno, "cannot release address space"));
  return {};
}

Result<void> MemfdUpstream::create(std::span<PageHandle> pages) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t wanted = pages_in(pages);
  const std::uint64_t fresh = wanted - std::min<std::uint64_t>(wanted, free_pages_.size());
  if ((next_page_ + fresh) * kPage.value > capacity_.value)
    return fail(ErrorCode::unsatisfied, fmt::format("fewer than {} pages of the device are free", wanted));
  for (PageHandle& piece : pages) {
    std::vector<std::uint64_t> places;
    for (std::uint32_t page = 0; page < piece.pages; ++page) {
      if (free_pages_.empty()) {
        places.push_back(++next_page_);
        continue;
      }
      places.push_back(free_pages_.back());
      free_pages_.pop_back();
    }
    // A piece is called after its first page.
    piece.value = places.front();
    pieces_[piece.value] = std::move(places);
  }
  return {};
}

Result<void> MemfdUpstream::destroy(std::span<const PageHandle> pages) {
  const std::lock_guard lock(mutex_);
  for (const PageHandle piece : pages) {
    for (const std::uint64_t page : pieces_.at(piece.value)) {
      // What was in it is gone, as on a device.
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>((page - 1) * kPage.value),
                  static_cast<off_t>(kPage.value));
      free_pages_.push_back(page);
    }
    pieces_.erase(piece.value);
  }
  return {};
}

Result<void> MemfdUpstream::map(DeviceAddress address, std::span<const PageHandle> pages) {
  const std::lock_guard lock(mutex_);
  std::uint64_t mapped = 0;  // bytes
  for (const PageHandle& piece : pages) {
    for (const std::uint64_t page : pieces_.at(piece.value)) {
      void* const at = pointer(address.value + mapped);
      const auto offset = static_cast<off_t>((page - 1) * kPage.value);
      if (::mmap(at, kPage.value, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(), offset) == MAP_FAILED) {
        const int error = errno;
        if (mapped > 0) map_nothing(address.value, mapped);
        return std::unexpected(error_from_errno(error, "cannot map a page"));
      }
      mapped += kPage.value;
    }
  }
  return {};
}

Result<void> MemfdUpstream::unmap(DeviceAddress address, Bytes size) {
  if (map_nothing(address.value, size.value) == MAP_FAILED)
    return std::unexpected(error_from_errno(errno, "cannot unmap pages"));
  return {};
}

Result<EventHandle> MemfdUpstream::record(StreamId) { return EventHandle{1}; }
Result<bool> MemfdUpstream::is_done(EventHandle) { return true; }
Result<void> MemfdUpstream::wait(StreamId, EventHandle) { return {}; }
Result<void> MemfdUpstream::synchronize(EventHandle) { return {}; }
Result<void> MemfdUpstream::forget(EventHandle) { return {}; }

Result<void> MemfdUpstream::copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId) {
  std::memcpy(pointer(to.value), pointer(from.value), size.value);
  return {};
}

Result<DeviceMemory> MemfdUpstream::memory() {
  const std::lock_guard lock(mutex_);
  return DeviceMemory{capacity_, Bytes(capacity_.value - (next_page_ - free_pages_.size()) * kPage.value)};
}

}  // namespace gpuwarden::memory
