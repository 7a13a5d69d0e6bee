// SPDX-License-Identifier: Apache-2.0
#include "memory/metered_upstream.hpp"

namespace gpuwarden::bench {

using memory::EventHandle;
using memory::kPage;
using memory::PageHandle;

Result<void> MeteredUpstream::create(std::span<PageHandle> pages) {
  auto created = pages_.create(pages);
  if (!created) {
    driver.call(Call::mem_create, kPage.value * pages.front().pages);
    return created;
  }
  for (const PageHandle& piece : pages) driver.call(Call::mem_create, kPage.value * piece.pages);
  return created;
}

Result<void> MeteredUpstream::destroy(std::span<const PageHandle> pages) {
  for (const PageHandle& piece : pages) driver.call(Call::mem_release, kPage.value * piece.pages);
  return pages_.destroy(pages);
}

Result<void> MeteredUpstream::map(memory::DeviceAddress address, std::span<const PageHandle> pages) {
  driver.call_map(address, pages);
  return pages_.map(address, pages);
}

Result<void> MeteredUpstream::unmap(memory::DeviceAddress address, Bytes size) {
  driver.call_unmap(address, size);
  return pages_.unmap(address, size);
}

Result<EventHandle> MeteredUpstream::record(memory::StreamId stream) {
  const Moment moment = driver.record(stream.value);
  const std::lock_guard lock(mutex_);
  if (unused_events_.empty()) {
    events_.push_back(moment);
    return EventHandle{events_.size()};
  }
  const std::uint64_t event = unused_events_.back();
  unused_events_.pop_back();
  events_[event - 1] = moment;
  return EventHandle{event};
}

Moment MeteredUpstream::moment(EventHandle event) {
  const std::lock_guard lock(mutex_);
  return events_[event.value - 1];
}

Result<bool> MeteredUpstream::is_done(EventHandle event) { return driver.is_done(moment(event)); }

Result<void> MeteredUpstream::wait(memory::StreamId stream, EventHandle event) {
  driver.wait(stream.value, moment(event));
  return {};
}

Result<void> MeteredUpstream::synchronize(EventHandle event) {
  driver.synchronize(moment(event));
  return {};
}

Result<void> MeteredUpstream::forget(EventHandle event) {
  const std::lock_guard lock(mutex_);
  unused_events_.push_back(event.value);
  return {};
}

}  // namespace gpuwarden::bench
