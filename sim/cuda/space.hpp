// SPDX-License-Identifier: Apache-2.0
// The process's device address space: what lies where, and the pages behind it. Addresses are real: device memory is
// mapped, reserved address space is not accessible, and remapping moves pages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "nvidia/cuda_abi.hpp"

namespace gpuwarden::cuda::server {

/// NVIDIA maps device memory in pages of 2 MiB; also what cuMemGetAllocationGranularity tells (minimum and
/// recommended) on every product simulated.
inline constexpr std::uint64_t kPage = std::uint64_t{2} << 20U;
inline std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }
/// Larger than any address space: sums of sizes below it cannot overflow.
inline constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 47U;

/// Memory that cuMemCreate made or another process exported: pages in a memory file.
struct MemoryObject {
  std::uint64_t id = 0;  ///< unique in the fleet
  int device = 0;
  std::uint64_t size = 0;
  int fd = -1;  ///< of its own file, or the device's
  bool own_file = false;
  std::uint64_t offset = 0;
  int handle_types = 0;
  bool shared = false;  ///< accounted as an object that others may hold
  std::uint64_t references = 0;
};

enum class RangeKind { device, pool, host, registered, mapping };

/// Something that can be addressed.
struct Range {
  RangeKind kind = RangeKind::device;
  std::uint64_t base = 0;
  std::uint64_t size = 0;  ///< as asked for
  std::uint64_t held = 0;  ///< as taken from the device
  int device = -1;
  std::uintptr_t context = 0;
  std::uintptr_t pool = 0;
  std::uint64_t number = 0;  ///< the "buffer id", unique in the process
  unsigned flags = 0;        ///< of host memory
  std::shared_ptr<MemoryObject> object;
  std::map<int, int> access;  ///< by device, of a mapping
};

/// Call with the driver's lock held.
class Space {
 public:
  /// Fresh zeroed memory, aligned to kPage; 0 where the machine has no room.
  static std::uint64_t map_memory(std::uint64_t size);
  static std::uint64_t reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted);
  static void unmap_memory(std::uint64_t base, std::uint64_t size);
  /// Puts an object's pages at reserved addresses, not accessible yet; or takes them off again.
  static bool map_object(std::uint64_t base, std::uint64_t size, const MemoryObject& object);
  static bool unmap_object(std::uint64_t base, std::uint64_t size);
  static bool protect(std::uint64_t base, std::uint64_t size, int access);

  Range& add(Range range);
  void remove(std::uint64_t base) { ranges_.erase(base); }
  /// The range that starts there, or that an address lies in.
  Range* at(std::uint64_t base);
  Range* around(std::uint64_t address);
  /// The first range that starts at or behind an address.
  Range* next(std::uint64_t address);
  /// Whether all of it may be read (or written), across adjoining mappings; memory unknown to us counts as the host's.
  bool can_touch(std::uint64_t address, std::uint64_t size, bool write);

  std::map<std::uint64_t, std::uint64_t>& reservations() { return reservations_; }
  std::map<std::uint64_t, Range>& ranges() { return ranges_; }

 private:
  std::map<std::uint64_t, Range> ranges_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // base, size
  std::uint64_t last_number_ = 0;
};

/// The file that backs a device's memory objects; objects take fresh offsets, and give their pages back by a hole.
class DeviceFile {
 public:
  DeviceFile() = default;
  DeviceFile(const DeviceFile&) = delete;
  DeviceFile& operator=(const DeviceFile&) = delete;
  ~DeviceFile();

  /// Room in the file; nothing where the machine refuses.
  std::optional<std::uint64_t> take(std::uint64_t size);
  void give(std::uint64_t offset, std::uint64_t size) const;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  std::uint64_t end_ = 0;
};

}  // namespace gpuwarden::cuda::server
