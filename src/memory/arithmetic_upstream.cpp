// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "gpuwarden/memory/host_upstreams.hpp"

namespace gpuwarden::memory {

Result<DeviceAddress> ArithmeticUpstream::reserve(Bytes size) {
  const std::lock_guard lock(mutex_);
  const DeviceAddress address{next_address_};
  next_address_ += size.value + kPage.value;
  return address;
}

Result<void> ArithmeticUpstream::release(DeviceAddress, Bytes) { return {}; }

Result<void> ArithmeticUpstream::create(std::span<PageHandle> pages) {
  const std::lock_guard lock(mutex_);
  const Bytes wanted = kPage * pages_in(pages);
  if (used_ + wanted > capacity_)
    return fail(ErrorCode::unsatisfied, fmt::format("the device has {} bytes free", (capacity_ - used_).value));
  used_ += wanted;
  for (PageHandle& page : pages) page.value = ++next_handle_;
  return {};
}

Result<void> ArithmeticUpstream::destroy(std::span<const PageHandle> pages) {
  const std::lock_guard lock(mutex_);
  used_ -= kPage * pages_in(pages);
  return {};
}

Result<void> ArithmeticUpstream::map(DeviceAddress, std::span<const PageHandle>) { return {}; }
Result<void> ArithmeticUpstream::unmap(DeviceAddress, Bytes) { return {}; }

Result<EventHandle> ArithmeticUpstream::record(StreamId) {
  const std::lock_guard lock(mutex_);
  return EventHandle{++next_handle_};
}

Result<bool> ArithmeticUpstream::is_done(EventHandle) { return true; }
Result<void> ArithmeticUpstream::wait(StreamId, EventHandle) { return {}; }
Result<void> ArithmeticUpstream::synchronize(EventHandle) { return {}; }
Result<void> ArithmeticUpstream::forget(EventHandle) { return {}; }

Result<void> ArithmeticUpstream::copy(DeviceAddress, DeviceAddress, Bytes, StreamId) { return {}; }

Result<DeviceMemory> ArithmeticUpstream::memory() {
  const std::lock_guard lock(mutex_);
  return DeviceMemory{capacity_, capacity_ - used_};
}

}  // namespace gpuwarden::memory
