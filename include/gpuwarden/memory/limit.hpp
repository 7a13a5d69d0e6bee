// SPDX-License-Identifier: Apache-2.0
// A limit on what may be live through one door, whatever the pool behind it holds.
#pragma once

#include <fmt/format.h>

#include <atomic>

#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

/// Fails with `unsatisfied` when more than `limit` bytes would be live. The inner resource must outlive it.
template <DeviceResource Inner>
class LimitResource {
 public:
  LimitResource(Inner& inner, Bytes limit) : inner_(inner), limit_(limit) {}

  Result<DeviceAddress> allocate(Bytes size, StreamId stream) {
    std::uint64_t live = live_.load(std::memory_order_relaxed);
    do {
      // live never exceeds the limit, so the difference cannot wrap around.
      if (size.value > limit_.value - live)
        return fail(ErrorCode::unsatisfied,
                    fmt::format("{} bytes would exceed the limit of {}: {} are live", size.value, limit_.value, live),
                    "raise the limit, or free something first");
    } while (!live_.compare_exchange_weak(live, live + size.value, std::memory_order_relaxed));
    auto address = inner_.allocate(size, stream);
    if (!address) live_.fetch_sub(size.value, std::memory_order_relaxed);
    return address;
  }

  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream) {
    auto result = inner_.deallocate(address, size, stream);
    if (result) live_.fetch_sub(size.value, std::memory_order_relaxed);
    return result;
  }

  Bytes live() const { return Bytes(live_.load(std::memory_order_relaxed)); }
  Bytes limit() const { return limit_; }

 private:
  Inner& inner_;
  const Bytes limit_;
  std::atomic<std::uint64_t> live_ = 0;
};

}  // namespace gpuwarden::memory
