// SPDX-License-Identifier: Apache-2.0
// What is live and how large it is, for resources whose driver does not check what is given back.
#pragma once

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memory/types.hpp"

namespace gpuwarden::memory {

class LiveSizes {
 public:
  void add(DeviceAddress address, Bytes size) {
    const std::lock_guard lock(mutex_);
    sizes_[address.value] = size;
  }

  /// Forgets a block, which has to be done before it is given back: its address may be given out at once.
  /// invalid_argument: no such block, or not of this size.
  Result<void> take(DeviceAddress address, Bytes size) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(address.value);
    if (found == sizes_.end())
      return fail(ErrorCode::invalid_argument, fmt::format("cannot free {:#x}: it is not live here", address.value),
                  "it was freed twice, or allocated elsewhere");
    if (found->second != size)
      return fail(ErrorCode::invalid_argument, fmt::format("cannot free {:#x} as {} bytes: it has {}", address.value,
                                                           size.value, found->second.value));
    sizes_.erase(found);
    return {};
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Bytes> sizes_;
};

}  // namespace gpuwarden::memory
