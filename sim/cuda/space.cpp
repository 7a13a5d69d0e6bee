// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/space.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gpuwarden::cuda::server {
namespace {

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): device pointers are numbers
}

/// Address space of a size at a multiple of `alignment`; without pages.
std::uint64_t reserve_aligned(std::uint64_t size, std::uint64_t alignment, void* wanted) {
  const std::uint64_t more = size + alignment;
  void* at = ::mmap(wanted, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<std::uint64_t>(at);
  const std::uint64_t base = round_up(begin, alignment);
  if (base > begin) ::munmap(at, base - begin);
  if (begin + more > base + size) ::munmap(pointer(base + size), begin + more - base - size);
  return base;
}

int protection(int access) {
  return access == kAccessReadWrite ? PROT_READ | PROT_WRITE : access == kAccessRead ? PROT_READ : PROT_NONE;
}

}  // namespace

std::uint64_t Space::map_memory(std::uint64_t size) {
  if (size >= kTooLarge) return 0;
  const std::uint64_t base = reserve_aligned(size, kPage, nullptr);
  if (base == 0 || protect(base, size, kAccessReadWrite)) return base;
  unmap_memory(base, size);
  return 0;
}

std::uint64_t Space::reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted) {
  if (wanted != 0 && wanted % alignment == 0) {
    void* at = ::mmap(pointer(wanted), size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == pointer(wanted)) return wanted;
    if (at != MAP_FAILED) ::munmap(at, size);
  }
  return reserve_aligned(size, alignment, nullptr);
}

void Space::unmap_memory(std::uint64_t base, std::uint64_t size) { ::munmap(pointer(base), size); }

bool Space::map_object(std::uint64_t base, std::uint64_t size, const MemoryObject& object) {
  return ::mmap(pointer(base), size, PROT_NONE, MAP_SHARED | MAP_FIXED, object.fd, static_cast<off_t>(object.offset)) !=
         MAP_FAILED;
}

bool Space::unmap_object(std::uint64_t base, std::uint64_t size) {
  return ::mmap(pointer(base), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

bool Space::protect(std::uint64_t base, std::uint64_t size, int access) {
  return ::mprotect(pointer(base), size, protection(access)) == 0;
}

Range& Space::add(Range range) {
  range.number = ++last_number_;
  const std::uint64_t base = range.base;
  return ranges_[base] = std::move(range);
}

Range* Space::at(std::uint64_t base) {
  const auto found = ranges_.find(base);
  return found == ranges_.end() ? nullptr : &found->second;
}

Range* Space::around(std::uint64_t address) {
  auto found = ranges_.upper_bound(address);
  if (found == ranges_.begin()) return nullptr;
  --found;
  return address - found->first < found->second.size ? &found->second : nullptr;
}

Range* Space::next(std::uint64_t address) {
  const auto found = ranges_.lower_bound(address);
  return found == ranges_.end() ? nullptr : &found->second;
}

bool Space::can_touch(std::uint64_t address, std::uint64_t size, bool write) {
  if (size >= kTooLarge) return false;
  while (size > 0) {
    const Range* range = around(address);
    if (range == nullptr) {
      // Reserved but not mapped is nobody's; anything else the host may have there.
      const auto reserved = reservations_.upper_bound(address);
      const bool inside =
          reserved != reservations_.begin() && address - std::prev(reserved)->first < std::prev(reserved)->second;
      const Range* behind = next(address);
      return !inside && (behind == nullptr || behind->base - address >= size);
    }
    if (range->kind == RangeKind::mapping) {
      int access = kAccessNone;
      for (const auto& [device, flags] : range->access) access |= flags;
      if (access == kAccessNone || (write && access != kAccessReadWrite)) return false;
    }
    const std::uint64_t here = range->size - (address - range->base);
    if (here >= size) return true;
    if (range->kind != RangeKind::mapping) return false;
    address += here;
    size -= here;
  }
  return true;
}

DeviceFile::~DeviceFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<std::uint64_t> DeviceFile::take(std::uint64_t size) {
  if (fd_ < 0) fd_ = ::memfd_create("gpuwarden-device-memory", MFD_CLOEXEC);
  const std::uint64_t offset = end_;
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(offset + size)) != 0) return std::nullopt;
  end_ = offset + size;
  return offset;
}

void DeviceFile::give(std::uint64_t offset, std::uint64_t size) const {
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
}

}  // namespace gpuwarden::cuda::server
