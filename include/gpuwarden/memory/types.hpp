// SPDX-License-Identifier: Apache-2.0
// What addresses, streams and pages of device memory are called in this room.
#pragma once

#include <compare>
#include <cstdint>

#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::memory {

/// An address on the device (CUdeviceptr); never to be dereferenced by the pool. 0 is no address.
struct DeviceAddress {
  std::uint64_t value = 0;
  auto operator<=>(const DeviceAddress&) const = default;
};

/// A stream's handle as an integer (CUstream); 0 is the default stream.
struct StreamId {
  std::uint64_t value = 0;
  auto operator<=>(const StreamId&) const = default;
};

/// Physical memory of one page (CUmemGenericAllocationHandle), or of several in one piece, which are mapped and
/// unmapped together; 0 is none.
struct PageHandle {
  std::uint64_t value = 0;
  std::uint32_t pages = 1;
  auto operator<=>(const PageHandle&) const = default;
};

/// A point in a stream's work (CUevent); 0 is none.
struct EventHandle {
  std::uint64_t value = 0;
  auto operator<=>(const EventHandle&) const = default;
};

/// Memory that is kept for one captured graph; 0 is none.
struct CaptureId {
  std::uint64_t value = 0;
  auto operator<=>(const CaptureId&) const = default;
};

/// The grain of physical memory: the least that cuMemCreate gives on current GPUs.
inline constexpr Bytes kPage = 2_MiB;
/// The grain of allocations, and their least alignment.
inline constexpr Bytes kGrain = 512_B;

}  // namespace gpuwarden::memory
