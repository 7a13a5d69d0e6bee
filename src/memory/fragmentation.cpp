// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/fragmentation.hpp"

#include <array>
#include <bit>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

/// Size classes are powers of two of grains.
constexpr std::size_t kClasses = 33;

void count(const Region& region, std::array<SizeClassUse, kClasses>& classes) {
  for (BlockNumber at = region.lowest(); at != kNoBlock; at = region[at].after) {
    const Block& block = region[at];
    SizeClassUse& use = classes[static_cast<std::size_t>(std::bit_width(block.size)) - 1];
    const Bytes size = bytes(block.size);
    if (is_given_out(block.state)) {
      ++use.live_blocks;
      use.live += size;
    } else if (block.state == BlockState::free) {
      ++use.free_blocks;
      use.free += size;
    }
  }
}

}  // namespace

FragmentationSample Pool::Core::sample_behind_lock(std::optional<Clock::SteadyTime> time) {
  const PoolStatus now = status_behind_lock();
  return FragmentationSample{.time = time,
                             .allocations = now.allocations,
                             .reserved = now.reserved,
                             .live = now.live,
                             .requested = now.requested,
                             .cached = now.cached,
                             .free = now.free,
                             .largest_free = now.largest_free};
}

void Pool::Core::sample_if_due(Lane& lane) {
  if (config_.sample_every == 0) return;
  {
    const LaneGuard lock(lane);
    lane.catch_up();
    const std::uint64_t operations = lane.counters.allocations + lane.counters.frees;
    if (operations - lane.sampled < config_.sample_every) return;
    lane.sampled = operations;
  }
  history_.add(sample_behind_lock(std::nullopt));
}

Fragmentation Pool::Core::fragmentation() {
  const std::lock_guard slow(slow_);
  Fragmentation result{.now = sample_behind_lock(std::nullopt), .classes = {}, .movable = kPage * pages_.spare()};
  std::array<SizeClassUse, kClasses> classes{};
  for (std::size_t i = 0; i < kClasses; ++i) classes[i].from = Bytes(kGrain.value << i);
  for_each_lane([&](Lane& lane) {
    const LaneGuard lock(lane);
    lane.leave_script();
    for (const Region& region : lane.regions) {
      count(region, classes);
      for (const IdlePages& run : region.idle_pages(~std::uint32_t{0}, ~std::uint32_t{0}))
        result.movable += bytes(run.size);
    }
  });
  for (const SizeClassUse& use : classes) {
    if (use.live_blocks != 0 || use.free_blocks != 0) result.classes.push_back(use);
  }
  return result;
}

FragmentationSample Pool::Core::sample_fragmentation(std::optional<Clock::SteadyTime> time) {
  const std::lock_guard slow(slow_);
  const auto sample = sample_behind_lock(time);
  history_.add(sample);
  return sample;
}

}  // namespace gpuwarden::memory
