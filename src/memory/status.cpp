// SPDX-License-Identifier: Apache-2.0
// What a pool holds, what it says when it has no more, and whether its books are in order.
#include <fmt/format.h>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

Bytes bytes(std::uint64_t grains) { return Bytes(grains << kGrainShift); }

void add(PoolStatus& status, Lane& lane) {
  const std::lock_guard lock(lane.lock);
  const LaneCounters& counters = lane.counters;
  status.live += bytes(counters.live);
  status.peak_live += bytes(lane.peak_live());
  status.requested += Bytes((counters.live << kGrainShift) - counters.waste);
  status.cached += bytes(counters.cached + counters.foreign);
  status.live_blocks += counters.allocations - counters.frees;
  status.allocations += counters.allocations;
  status.frees += counters.frees;
  status.quick_hits += counters.quick_hits;
  status.metadata += Bytes(sizeof(Lane));
  for (const Region& region : lane.regions) {
    status.largest_free = std::max(status.largest_free, bytes(region.largest_free()));
    status.metadata += Bytes(region.metadata_bytes());
  }
}

std::string megabytes(Bytes size) { return fmt::format("{:.1f} MiB", ratio(size, 1_MiB)); }

std::string advice(const PoolStatus& status, const DeviceMemory& device, Bytes asked) {
  if (status.limit < device.total && device.free >= asked)
    return fmt::format("the device has {} free: raise the pool's limit of {}", megabytes(device.free),
                       megabytes(status.limit));
  if (status.free + status.cached >= asked)
    return "memory that was given back is still in use by streams, or could not be moved: synchronise, then try again";
  if (device.total - device.free > status.reserved + status.reserved)
    return "most of the device is held by others: choose another GPU, or end what holds it";
  return "the memory in use is really needed: smaller batches, recomputation, or a GPU with more memory";
}

}  // namespace

std::uint64_t Pool::Core::live_bytes() const {
  // Other lanes' counters move meanwhile: good enough for deciding how far to grow.
  std::uint64_t grains = 0;
  for_each_lane([&](const Lane& lane) { grains += lane.counters.live.load(std::memory_order_relaxed); });
  return grains << kGrainShift;
}

PoolStatus Pool::Core::status() {
  const std::lock_guard slow(slow_);
  PoolStatus status;
  for_each_lane([&](Lane& lane) { add(status, lane); });
  status.reserved = pages_.reserved();
  status.peak_reserved = pages_.peak_reserved();
  status.spare = kPage * pages_.spare();
  status.free = status.reserved - status.live - status.cached;
  status.limit = pages_.limit();
  status.upstream_calls = pages_.calls;
  status.pages_created = pages_.created;
  status.pages_moved = pages_moved_;
  status.out_of_memory = out_of_memory_;
  status.rungs = rungs_;
  for (RungCount& rung : status.rungs) rung.nanoseconds = scale_.nanoseconds(rung.nanoseconds);
  return status;
}

Error Pool::Core::report(Attempt& attempt) {
  attempt.lane_lock.unlock();
  attempt.slow_lock.unlock();
  if (pages_.lost)
    return Error{ErrorCode::unavailable, "cannot allocate device memory: the device's context is gone",
                 "end the process; what it held is given back by the driver"};
  const PoolStatus now = status();
  const auto device = upstream_.memory();
  std::string text = fmt::format(
      "out of device memory: {} bytes asked for; the pool holds {}: {} live, {} kept for reuse, {} free (largest block "
      "{})",
      attempt.bytes.value, megabytes(now.reserved), megabytes(now.live), megabytes(now.cached), megabytes(now.free),
      megabytes(now.largest_free));
  if (device) text += fmt::format("; the device has {} free of {}", megabytes(device->free), megabytes(device->total));
  if (now.limit.value != 0) text += fmt::format("; the pool's limit is {}", megabytes(now.limit));
  if (!attempt.last.message.empty()) text += fmt::format("; {}", attempt.last.message);
  if (config_.who_holds_what) text += fmt::format("; {}", config_.who_holds_what());
  return Error{ErrorCode::unsatisfied, std::move(text), advice(now, device.value_or(DeviceMemory{}), attempt.bytes)};
}

namespace {

/// What is wrong with a block that begins at `expected` behind `before`; empty: nothing.
std::string_view fault_of(const Region& region, BlockNumber at, BlockNumber before, Grains expected) {
  const Block& block = region[at];
  if (block.start != expected || block.size == 0) return "a gap or an overlap";
  if (block.before != before) return "the neighbours disagree";
  if (region.find(block.start) != at) return "the index does not know the block";
  const bool mergeable = block.state == BlockState::free || block.state == BlockState::hole;
  if (mergeable && before != kNoBlock && region[before].state == block.state)
    return "two like neighbours were not merged";
  if (block.state >= BlockState::claimed) return "a claim was left behind";
  return "";
}

/// Whether every page under a block has memory, or none has where the block is a hole.
bool is_backed_as_it_should(const Region& region, const Block& block) {
  for (Grains page = block.start / kPageGrains; page <= (block.start + block.size - 1) / kPageGrains; ++page) {
    const bool backed = page < region.handles().size() && region.handles()[page].value != 0;
    if (backed == (block.state == BlockState::hole)) return false;
    if (block.state == BlockState::hole && page >= region.handles().size()) break;
  }
  return true;
}

}  // namespace

Result<void> Pool::Core::check_lane(Lane& lane, std::uint64_t& mapped) {
  const std::lock_guard lock(lane.lock);
  const auto broken = [&](unsigned region, Grains at, std::string_view what) {
    return fail(ErrorCode::corrupt, fmt::format("lane {} region {} at {:#x}: {}", lane.number, region, at, what));
  };
  std::array<std::uint64_t, 8> sums{};
  for (unsigned number = 0; number < kRegions; ++number) {
    Region& region = lane.regions[number];
    Grains expected = 0;
    BlockNumber before = kNoBlock;
    for (BlockNumber at = region.lowest(); at != kNoBlock; at = region[at].after) {
      const Block& block = region[at];
      if (const std::string_view fault = fault_of(region, at, before, expected); !fault.empty())
        return broken(number, block.start, fault);
      if (!is_backed_as_it_should(region, block)) return broken(number, block.start, "a page is not as its block");
      sums[static_cast<std::size_t>(block.state)] += block.size;
      expected += block.size;
      before = at;
    }
    for (const PageHandle handle : region.handles()) mapped += handle.value != 0 ? 1U : 0U;
  }
  const auto sum = [&](BlockState state) { return sums[static_cast<std::size_t>(state)]; };
  if (sum(BlockState::live) != lane.counters.live) return broken(0, 0, "the live bytes are miscounted");
  if (sum(BlockState::cached) != lane.counters.cached) return broken(0, 0, "the cached bytes are miscounted");
  if (sum(BlockState::foreign) != lane.counters.foreign) return broken(0, 0, "the foreign bytes are miscounted");
  return {};
}

Result<void> Pool::Core::check() {
  const std::lock_guard slow(slow_);
  std::uint64_t mapped = 0;
  for (unsigned i = 0; i < lane_count_; ++i) GPUWARDEN_CHECK(check_lane(*lanes_[i], mapped));
  if (mapped + pages_.spare() != pages_.pages())
    return fail(ErrorCode::corrupt, fmt::format("{} pages are mapped and {} spare, but there are {}", mapped,
                                                pages_.spare(), pages_.pages()));
  return {};
}

}  // namespace gpuwarden::memory
