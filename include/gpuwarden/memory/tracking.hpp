// SPDX-License-Identifier: Apache-2.0
// Remembers who allocated what is live, with call stacks, and refuses what was never given out.
#pragma once

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

/// The return addresses of the callers, the nearest first, at most `depth`.
std::vector<void*> call_stack(std::size_t depth);
/// "module(function+0x12)" for each of them.
std::vector<std::string> describe(const std::vector<void*>& stack);

struct LiveAllocation {
  DeviceAddress address;
  Bytes size;
  StreamId stream;
  std::vector<void*> stack;
};

/// Keeps the stacks of live allocations down to `depth` (0: none). The inner resource must outlive it.
template <DeviceResource Inner>
class TrackingResource {
 public:
  explicit TrackingResource(Inner& inner, std::size_t depth = 0) : inner_(inner), depth_(depth) {}

  Result<DeviceAddress> allocate(Bytes size, StreamId stream) {
    auto address = inner_.allocate(size, stream);
    if (!address) return address;
    const std::lock_guard lock(mutex_);
    live_[*address] = {*address, size, stream, depth_ == 0 ? std::vector<void*>() : call_stack(depth_)};
    return address;
  }

  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream) {
    typename std::map<DeviceAddress, LiveAllocation>::node_type entry;
    {
      // Taken out first: the address may be given out again as soon as the inner resource has it.
      const std::lock_guard lock(mutex_);
      const auto found = live_.find(address);
      if (found == live_.end())
        return fail(ErrorCode::invalid_argument, fmt::format("{:#x} is not live here", address.value),
                    "it was freed twice, or allocated elsewhere");
      if (found->second.size != size)
        return fail(ErrorCode::invalid_argument, fmt::format("cannot free {:#x} as {} bytes: it has {}", address.value,
                                                             size.value, found->second.size.value));
      entry = live_.extract(found);
    }
    auto result = inner_.deallocate(address, size, stream);
    if (!result) {
      const std::lock_guard lock(mutex_);
      live_.insert(std::move(entry));
    }
    return result;
  }

  /// What is live, by address.
  std::vector<LiveAllocation> live() const {
    const std::lock_guard lock(mutex_);
    std::vector<LiveAllocation> result;
    for (const auto& [address, allocation] : live_) result.push_back(allocation);
    return result;
  }

 private:
  Inner& inner_;
  const std::size_t depth_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, LiveAllocation> live_;
};

}  // namespace gpuwarden::memory
