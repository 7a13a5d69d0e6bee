// SPDX-License-Identifier: Apache-2.0
#include "memory/metered_upstream.hpp"

#include <iterator>

namespace gpuwarden::bench {

using memory::EventHandle;
using memory::kPage;
using memory::PageHandle;

namespace {

std::uint64_t bytes_of(std::span<const PageHandle> pages) { return kPage.value * pages.size(); }

}  // namespace

std::uint64_t MeteredUpstream::call_for_each(Call call, std::span<const PageHandle> pages) {
  std::uint64_t pieces = 0;
  memory::for_each_piece(pages, [&](std::span<const PageHandle> piece) {
    driver.call(call, bytes_of(piece));
    ++pieces;
  });
  return pieces;
}

Result<void> MeteredUpstream::create(std::span<PageHandle> pages) {
  auto created = pages_.create(pages);
  driver.call(Call::mem_create, kPage.value, created ? pages.size() : 1);
  return created;
}

Result<void> MeteredUpstream::create_joined(std::span<PageHandle> pages) {
  driver.call(Call::mem_create, bytes_of(pages));
  return pages_.create_joined(pages);
}

Result<void> MeteredUpstream::destroy(std::span<const PageHandle> pages) {
  call_for_each(Call::mem_release, pages);
  return pages_.destroy(pages);
}

Result<void> MeteredUpstream::map(memory::DeviceAddress address, std::span<const PageHandle> pages) {
  driver.call(Call::mem_set_access, bytes_of(pages), 1, call_for_each(Call::mem_map, pages));
  const std::lock_guard lock(mutex_);
  std::uint64_t at = address.value;
  memory::for_each_piece(pages, [&](std::span<const PageHandle> piece) {
    mapped_[at] = bytes_of(piece);
    at += bytes_of(piece);
  });
  return pages_.map(address, pages);
}

Result<void> MeteredUpstream::unmap(memory::DeviceAddress address, Bytes size) {
  {
    const std::lock_guard lock(mutex_);
    const auto first = mapped_.find(address.value);
    const auto last = mapped_.lower_bound(address.value + size.value);
    driver.call(Call::mem_unmap, size.value, 1, static_cast<std::uint64_t>(std::distance(first, last)));
    mapped_.erase(first, last);
  }
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
