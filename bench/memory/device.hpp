// SPDX-License-Identifier: Apache-2.0
// What the re-implementations of other allocators share: a device that only counts.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "memory/driver.hpp"

namespace gpuwarden::bench {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

inline constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t grain) {
  return (size + grain - 1) / grain * grain;
}

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// cudaMalloc, cudaFree and page mappings as arithmetic. Not safe to use from several threads.
class CountingDevice {
 public:
  /// `capacity` in bytes; `price_factor` as Driver's.
  explicit CountingDevice(std::uint64_t capacity, double price_factor = 0)
      : driver(price_factor), capacity_(capacity) {}

  /// Address of `size` new bytes; 0 when the device has no more.
  std::uint64_t allocate(std::uint64_t size) {
    driver.call(Call::mem_alloc, size);
    if (reserved + size > capacity_) return 0;
    reserve(size);
    const std::uint64_t address = next_;
    next_ += round_up(size, 2 * kMiB) + 2 * kMiB;
    return address;
  }
  void free(std::uint64_t size) {
    driver.call(Call::mem_free, size);
    reserved -= size;
  }
  /// Address space without memory.
  std::uint64_t reserve_addresses(std::uint64_t size) {
    const std::uint64_t address = next_;
    next_ += size;
    return address;
  }
  /// Memory for reserved addresses: a creation and a mapping for each granule, access for all of them at once.
  bool map(std::uint64_t size, std::uint64_t granule) {
    if (reserved + size > capacity_) {
      driver.call(Call::mem_create, granule);
      return false;
    }
    driver.call(Call::mem_create, granule, size / granule);
    driver.call_map(granule, size / granule);
    reserve(size);
    return true;
  }
  void unmap(std::uint64_t size, std::uint64_t granule) {
    driver.call(Call::mem_unmap, granule, size / granule);
    driver.call(Call::mem_release, granule, size / granule);
    reserved -= size;
  }

  std::uint64_t capacity() const { return capacity_; }

  std::uint64_t reserved = 0;
  std::uint64_t peak_reserved = 0;
  Driver driver;

 private:
  void reserve(std::uint64_t size) {
    reserved += size;
    if (reserved > peak_reserved) peak_reserved = reserved;
  }

  std::uint64_t capacity_;
  std::uint64_t next_ = std::uint64_t{1} << 40U;
};

}  // namespace gpuwarden::bench
