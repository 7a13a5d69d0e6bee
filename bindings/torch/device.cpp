// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gpuwarden::torch {
namespace {

using memory::DeviceAddress;
using memory::StreamId;

Result<std::ofstream> open_trace(std::filesystem::path file, unsigned ordinal) {
  if (ordinal > 0) file += fmt::format(".{}", ordinal);
  std::ofstream out(file, std::ios::trunc);
  if (!out) return std::unexpected(error_from_errno(errno, fmt::format("GPUWARDEN_MEMORY_TRACE: {}", file.string())));
  return out;
}

}  // namespace

Result<std::unique_ptr<Device>> Device::open(unsigned ordinal, const Settings& settings) {
  std::unique_ptr<Device> device(new Device(settings));
  pools::DevicePoolOptions options;
  options.cuda.device = CudaOrdinal{ordinal};
  options.strategy = settings.strategy;
  options.limit = settings.limit;
  options.wait_for_others = settings.wait_for_others;
  options.trim_after = settings.trim_after;
  options.on_out_of_memory = device->observer_.on_out_of_memory();
  GPUWARDEN_TRY(device->on_device_, pools::DevicePool::open(options));
  if (!settings.trace.empty()) {
    GPUWARDEN_TRY(auto file, open_trace(settings.trace, ordinal));
    device->trace_ = std::make_unique<Trace>(std::move(file), device->pool());
  }
  device->observer_.start(*device->on_device_, ordinal);
  return device;
}

Device::~Device() { observer_.finish(); }

Result<DeviceAddress> Device::allocate(Bytes size, StreamId stream) {
  if (captures_.load(std::memory_order_acquire) > 0) [[unlikely]]
    GPUWARDEN_CHECK(join_captures(stream));
  return trace_ ? trace_->resource.allocate(size, stream) : pool().allocate(size, stream);
}

Result<void> Device::deallocate(DeviceAddress address, Bytes size, StreamId stream) {
  return trace_ ? trace_->resource.deallocate(address, size, stream) : pool().deallocate(address, size, stream);
}

void Device::begin(GroupId group, StreamFilter filter) {
  const std::lock_guard lock(mutex_);
  Group& found = groups_[group];
  if (!found.filter) captures_.fetch_add(1, std::memory_order_release);
  found.filter = std::move(filter);
  found.streams.clear();
}

Result<void> Device::join_captures(StreamId stream) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, group] : groups_) {
    if (!group.filter || !group.filter(stream)) continue;
    if (std::ranges::find(group.streams, stream) != group.streams.end()) return {};
    if (group.capture) {
      GPUWARDEN_CHECK(pool().join_capture(*group.capture, stream));
    } else {
      GPUWARDEN_TRY(group.capture, pool().begin_capture(stream));
    }
    group.streams.push_back(stream);
    return {};
  }
  return {};
}

Result<void> Device::end(GroupId group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end() || !found->second.filter)
    return fail(ErrorCode::invalid_argument, "no capture of this group of graphs is under way");
  found->second.filter = nullptr;
  captures_.fetch_sub(1, std::memory_order_release);
  const bool took_memory = !found->second.streams.empty();
  found->second.streams.clear();
  return took_memory ? pool().end_capture(*found->second.capture) : Result<void>{};
}

Result<void> Device::release(GroupId group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end()) return {};  // its graphs took no memory
  if (found->second.filter)
    return fail(ErrorCode::invalid_argument, "a capture of this group of graphs is under way", "end it first");
  if (found->second.capture) {
    // Replays may have run on any stream.
    GPUWARDEN_CHECK(on_device_->device().synchronize_context());
    GPUWARDEN_CHECK(pool().release_capture(*found->second.capture, StreamId{}));
  }
  groups_.erase(found);
  return {};
}

void Device::finish() {
  // A forked child has a copy of what its parent is going to write.
  if (trace_ && trace_->process == ::getpid()) trace_->resource.flush();
  observer_.finish();
}

}  // namespace gpuwarden::torch
