// SPDX-License-Identifier: Apache-2.0
// The small concept that a pool and everything around it share, so that they can be put around each other:
//
//   TrackingResource tracked(*pool);
//   StatisticsResource counted(tracked);
//   auto address = counted.allocate(1_MiB, stream);
#pragma once

#include <concepts>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memory/types.hpp"

namespace gpuwarden::memory {

/// Gives device memory out and takes it back with the size and on a stream, as Pool does. Safe to use from several
/// threads. What fails changes nothing.
template <class R>
concept DeviceResource = requires(R& resource, Bytes size, StreamId stream, DeviceAddress address) {
  { resource.allocate(size, stream) } -> std::same_as<Result<DeviceAddress>>;
  { resource.deallocate(address, size, stream) } -> std::same_as<Result<void>>;
};

}  // namespace gpuwarden::memory
