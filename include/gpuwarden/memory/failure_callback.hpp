// SPDX-License-Identifier: Apache-2.0
// Asks somebody what to do when memory is out, and tries again.
#pragma once

#include <functional>
#include <utility>

#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

/// Calls `again(size, error)` after each allocation that failed with `unsatisfied`; true: it is tried once more. The
/// callback may use the resource itself. The inner resource must outlive it.
template <DeviceResource Inner>
class FailureCallbackResource {
 public:
  using Callback = std::function<bool(Bytes size, const Error& error)>;

  FailureCallbackResource(Inner& inner, Callback again) : inner_(inner), again_(std::move(again)) {}

  Result<DeviceAddress> allocate(Bytes size, StreamId stream) {
    while (true) {
      auto address = inner_.allocate(size, stream);
      if (address || address.error().code != ErrorCode::unsatisfied || !again_(size, address.error())) return address;
    }
  }

  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream) {
    return inner_.deallocate(address, size, stream);
  }

 private:
  Inner& inner_;
  Callback again_;
};

}  // namespace gpuwarden::memory
