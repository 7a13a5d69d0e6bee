// SPDX-License-Identifier: Apache-2.0
// What a pool holds, what it says when it has no more, and whether its books are in order.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

void add(PoolStatus& status, Lane& lane) {
  const LaneGuard lock(lane);
  lane.catch_up();
  const LaneCounters& counters = lane.counters;
  status.live += bytes(lane.live());
  status.peak_live += bytes(lane.peak_live());
  status.requested += Bytes((lane.live() << kGrainShift) - counters.waste);
  status.cached += bytes(counters.cached + counters.foreign);
  status.live_blocks += counters.allocations - counters.frees;
  status.allocations += counters.allocations;
  status.frees += counters.frees;
  status.quick_hits += counters.quick_hits;
  status.learned_operations += lane.learned.operations;
  status.metadata += Bytes(sizeof(Lane) + lane.inbox.bytes() + lane.step_bytes());
  for (const Region& region : lane.regions) {
    if (!lane.is_private) status.largest_free = std::max(status.largest_free, bytes(region.largest_free()));
    status.metadata += Bytes(region.metadata_bytes());
  }
}

/// Streams that a report names.
constexpr std::size_t kStreamsInReport = 8;

StreamMemory memory_of(Lane& lane) {
  const LaneGuard lock(lane);
  lane.catch_up();
  const LaneCounters& counters = lane.counters;
  std::uint64_t mapped = 0;
  for (const Region& region : lane.regions)
    mapped += static_cast<std::uint64_t>(
        std::ranges::count_if(region.handles(), [](PageHandle handle) { return handle.value != 0; }));
  const Bytes live = bytes(lane.live());
  const Bytes cached = bytes(counters.cached + counters.foreign);
  return StreamMemory{.stream = lane.stream,
                      .captured = lane.is_private,
                      .live = live,
                      .cached = cached,
                      .free = kPage * mapped - live - cached,
                      .live_blocks = counters.allocations - counters.frees};
}

Bytes largest_in(Lane& lane) {
  const LaneGuard lock(lane);
  Grains largest = 0;
  for (const Region& region : lane.regions) largest = std::max(largest, region.largest_free());
  return bytes(largest);
}

/// Bytes of whole pages without a user.
Bytes idle_in(Lane& lane) {
  const LaneGuard lock(lane);
  std::uint64_t grains = 0;
  for (const Region& region : lane.regions)
    for (const IdlePages& run : region.idle_pages(~std::uint32_t{0}, ~std::uint32_t{0})) grains += run.size;
  return bytes(grains);
}

}  // namespace

std::uint64_t Pool::Core::live_bytes() const {
  // Other lanes' counters move meanwhile: good enough for deciding how far to grow.
  std::uint64_t grains = 0;
  for_each_lane([&](const Lane& lane) {
    const std::uint64_t live = lane.live();
    grains += live - std::min(live, lane.inbox.grains());
  });
  return grains << kGrainShift;
}

PoolStatus Pool::Core::status() {
  const std::lock_guard slow(slow_);
  return status_behind_lock();
}

PoolStatus Pool::Core::status_behind_lock() {
  PoolStatus status;
  for_each_lane([&](Lane& lane) { add(status, lane); });
  status.reserved = pages_.reserved();
  status.peak_reserved = pages_.peak_reserved();
  status.spare = kPage * pages_.spare();
  status.free = status.reserved - status.live - status.cached;
  status.limit = pages_.limit();
  status.metadata += Bytes(uses_.bytes());
  status.upstream_calls = pages_.calls;
  status.pages_created = pages_.created;
  status.pages_moved = pages_moved_;
  status.out_of_memory = out_of_memory_;
  status.learned_steps = scripts_;
  status.rungs = rungs_;
  for (RungCount& rung : status.rungs) rung.nanoseconds = scale_.nanoseconds(rung.nanoseconds);
  return status;
}

OutOfMemoryReport Pool::Core::describe(const Attempt& attempt) {
  const PoolStatus now = status_behind_lock();
  // Not one of the calls that requests cost.
  const auto device = pages_.called(upstream_.memory());
  --pages_.calls;
  OutOfMemoryReport report{.requested = attempt.bytes,
                           .rounded = std::max(attempt.bytes, bytes(attempt.size)),
                           .stream = attempt.lane.stream,
                           .reason = attempt.last.message,
                           .limit = pages_.own_limit(),
                           .keep_free = config_.keep_free,
                           .reserved = now.reserved,
                           .live = now.live,
                           .cached = now.cached,
                           .free = now.free,
                           .largest_free = now.largest_free,
                           .capturing = captures_underway_ != 0};
  // What could be obtained: a free block, or whole pages without a user and what the device and the limits leave.
  Bytes largest;
  Bytes idle = now.spare;
  for_each_lane([&](Lane& lane) {
    const StreamMemory& memory = report.streams.emplace_back(memory_of(lane));
    if (lane.is_private) report.captured += memory.cached + memory.free;
    const bool shares = !lane.is_private && !attempt.lane.is_private;
    if (&lane == &attempt.lane || shares) largest = std::max(largest, largest_in(lane));
    if (shares && captures_underway_ == 0) idle += idle_in(lane);
  });
  Bytes room;
  if (device) {
    report.device_total = device->total;
    report.device_free = device->free;
    room = device->free - std::min(device->free, config_.keep_free);
  }
  if (report.limit) room = std::min(room, *report.limit - std::min(*report.limit, now.reserved));
  if (pages_.budget() != nullptr) room = std::min(room, *(report.budget_left = pages_.budget()->left()));
  report.largest_obtainable = std::max(largest, idle + Bytes(room.value / kPage.value * kPage.value));
  std::ranges::sort(report.streams, std::greater{}, &StreamMemory::held);
  report.more_streams = report.streams.size() - std::min(report.streams.size(), kStreamsInReport);
  report.streams.resize(report.streams.size() - report.more_streams);
  for (std::size_t i = 0; i < kRungs; ++i)
    report.rungs[i] = {attempt.spent[i] != 0 ? 1U : 0U, rungs_[i].helped, scale_.nanoseconds(attempt.spent[i])};
  return report;
}

Error Pool::Core::report(Attempt& attempt) {
  attempt.lane_lock.unlock();
  std::optional<OutOfMemoryReport> described;
  if (!pages_.lost) described = describe(attempt);
  if (pages_.lost)
    return Error{ErrorCode::unavailable, "cannot allocate device memory: the device's context is gone",
                 "end the process; what it held is given back by the driver"};
  OutOfMemoryReport& report = *described;
  attempt.slow_lock.unlock();
  if (config_.who_holds_what) report.who_holds_what = config_.who_holds_what();
  report.advice = advice_for(report);
  if (config_.on_out_of_memory) config_.on_out_of_memory(report);
  return Error{ErrorCode::unsatisfied, report.sentence(), report.help()};
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
  const LaneGuard lock(lane);
  const auto broken = [&](unsigned region, Grains at, std::string_view what) {
    return fail(ErrorCode::corrupt, fmt::format("lane {} region {} at {:#x}: {}", lane.number, region, at, what));
  };
  std::array<std::uint64_t, 11> sums{};
  for (unsigned number = 0; number < kRegions; ++number) {
    Region& region = lane.regions[number];
    Grains expected = 0;
    BlockNumber before = kNoBlock;
    for (BlockNumber at = region.lowest(); at != kNoBlock; at = region[at].after) {
      const Block& block = region[at];
      if (const std::string_view fault = fault_of(region, at, before, expected); !fault.empty())
        return broken(number, block.start, fault);
      if (!is_backed_as_it_should(region, block)) return broken(number, block.start, "a page is not as its block");
      sums[static_cast<std::size_t>(BlockState{block.state})] += block.size;
      expected += block.size;
      before = at;
    }
    for (const PageHandle handle : region.handles()) mapped += handle.value != 0 ? 1U : 0U;
  }
  const auto sum = [&](BlockState state) { return sums[static_cast<std::size_t>(state)]; };
  if (sum(BlockState::live) + sum(BlockState::shared) + sum(BlockState::left) != lane.counters.live)
    return broken(0, 0, "the live bytes are miscounted");
  if (sum(BlockState::planned) != (lane.follows() ? lane.learned.size : 0U))
    return broken(0, 0, "what a learned step has taken is miscounted");
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
