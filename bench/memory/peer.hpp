// SPDX-License-Identifier: Apache-2.0
// What the re-implementations of other allocators share: a device that only counts, and blocks with neighbours.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace gpuwarden::bench {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

inline constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t grain) {
  return (size + grain - 1) / grain * grain;
}

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// cudaMalloc, cudaFree and page mappings as counters.
class CountingDevice {
 public:
  explicit CountingDevice(std::uint64_t capacity) : capacity_(capacity) {}

  /// Address of `size` new bytes; 0 when the device has no more.
  std::uint64_t allocate(std::uint64_t size) {
    ++calls;
    if (reserved + size > capacity_) return 0;
    reserve(size);
    const std::uint64_t address = next_;
    next_ += round_up(size, 2 * kMiB) + 2 * kMiB;
    return address;
  }
  void free(std::uint64_t size) {
    ++calls;
    reserved -= size;
  }
  /// Address space without memory.
  std::uint64_t reserve_addresses(std::uint64_t size) {
    const std::uint64_t address = next_;
    next_ += size;
    return address;
  }
  /// Memory for reserved addresses, page by page: a creation and a mapping for each granule.
  bool map(std::uint64_t size, std::uint64_t granule) {
    calls += 2 * (size / granule);
    if (reserved + size > capacity_) return false;
    reserve(size);
    return true;
  }

  std::uint64_t capacity() const { return capacity_; }

  std::uint64_t reserved = 0;
  std::uint64_t peak_reserved = 0;
  std::uint64_t calls = 0;

 private:
  void reserve(std::uint64_t size) {
    reserved += size;
    if (reserved > peak_reserved) peak_reserved = reserved;
  }

  std::uint64_t capacity_;
  std::uint64_t next_ = std::uint64_t{1} << 40U;
};

}  // namespace gpuwarden::bench
