// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/layout.hpp"

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

BlockUse use_of(BlockState state) {
  if (is_given_out(state)) return BlockUse::live;
  if (state == BlockState::cached) return BlockUse::cached;
  return state == BlockState::foreign ? BlockUse::pending : BlockUse::free;
}

/// The runs of blocks between a region's holes.
void add(std::vector<SegmentLayout>& segments, const Lane& lane, const Region& region, DeviceAddress base) {
  bool open = false;
  for (BlockNumber at = region.lowest(); at != kNoBlock; at = region[at].after) {
    const Block& block = region[at];
    if (block.state == BlockState::hole) {
      open = false;
      continue;
    }
    const DeviceAddress address{base.value + bytes(block.start).value};
    if (!open) segments.push_back({.address = address, .stream = lane.stream});
    open = true;
    const BlockUse use = use_of(block.state);
    const Bytes requested = use == BlockUse::live ? bytes(block.size) - Bytes(block.left) : Bytes(0);
    segments.back().size += bytes(block.size);
    segments.back().blocks.push_back({address, bytes(block.size), requested, use});
  }
}

}  // namespace

std::vector<SegmentLayout> Pool::Core::layout() {
  const std::lock_guard slow(slow_);
  std::vector<SegmentLayout> segments;
  for_each_lane([&](Lane& lane) {
    const LaneGuard lock(lane);
    lane.leave_script();
    for (unsigned number = 0; number < kRegions; ++number)
      add(segments, lane, lane.regions[number], base_of(lane, number));
  });
  return segments;
}

std::vector<SegmentLayout> Pool::layout() {
  if (core_->is_forked()) return {};
  return core_->layout();
}

}  // namespace gpuwarden::memory
