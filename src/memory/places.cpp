// SPDX-License-Identifier: Apache-2.0
// Places for buffers that move: which pages are used, and where a block costs the fewest pages.
#include <fmt/format.h>

#include <algorithm>

#include "memory/core.hpp"

namespace gpuwarden::memory {

namespace {

using UsedPages = std::unordered_map<std::uint64_t, std::uint64_t>;

/// Adds [begin, end) to the pages that it lies on.
void add(UsedPages& used, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t from = begin; from < end;) {
    const std::uint64_t page = from / kPage.value;
    const std::uint64_t to = std::min(end, (page + 1) * kPage.value);
    used[page] += to - from;
    from = to;
  }
}

void add(UsedPages& used, const Region& region, std::uint64_t base) {
  for (BlockNumber at = region.lowest(); at != kNoBlock; at = region[at].after) {
    const Block& block = region[at];
    if (block.state == BlockState::free || block.state == BlockState::hole) continue;
    add(used, base + (std::uint64_t{block.start} << kGrainShift),
        base + ((std::uint64_t{block.start} + block.size) << kGrainShift));
  }
}

}  // namespace

UsedPages Pool::Core::used_pages() {
  const std::lock_guard slow(slow_);
  UsedPages used;
  for_each_lane([&](Lane& lane) {
    const LaneGuard lock(lane);
    lane.leave_script();
    if (!lane.is_private) lane.flush();
    for (unsigned number = 0; number < kRegions; ++number) add(used, lane.regions[number], base_of(lane, number).value);
  });
  return used;
}

std::optional<MovePlace> Pool::Core::take_place(Bytes size, StreamId stream, const std::set<std::uint64_t>& leaving,
                                                std::uint64_t most_pages) {
  const std::lock_guard slow(slow_);
  Lane* const lane = lane_of(stream);
  if (lane == nullptr || captures_underway_ != 0 || pages_.lost) return std::nullopt;
  const auto wanted = grains(size);
  const unsigned number = lane->region_for(wanted);
  const std::uint64_t first = base_of(*lane, number).value / kPage.value;
  const LaneGuard lock(*lane);
  Region& region = lane->regions[number];
  // Pages of the free block that the place touches and that have no other user.
  const auto cost = [&](Grains start, const Block& block) {
    std::uint64_t pages = 0;
    for (Grains page = start / kPageGrains; page <= (start + wanted - 1) / kPageGrains; ++page) {
      if (leaving.contains(first + page)) return ~std::uint64_t{0};
      const bool idle = page * kPageGrains >= block.start && (page + 1) * kPageGrains <= block.start + block.size;
      pages += idle ? 1 : 0;
    }
    return pages;
  };
  std::uint64_t pages = most_pages;
  const BlockNumber taken = region.take_cheapest(wanted, cost, pages);
  if (taken == kNoBlock) return std::nullopt;
  lane->count_taken(region[taken], size.value);
  lane->note_birth(region[taken]);
  return MovePlace{address_of(Place{lane, number, taken, {}}), pages};
}

Result<void> Pool::Core::vacate(DeviceAddress address, StreamId stream) {
  Grains start = 0;
  const Place place = place_of(address, start);
  if (place.lane == nullptr) return std::unexpected(bad_address(address, place, start));
  if (place.lane->stream == stream) {
    const std::lock_guard lock(place.lane->lock);
    if (place.lane->covers(place.region, start)) place.lane->leave_script();
    const Region& region = place.lane->regions[place.region];
    const BlockNumber number = region.find(start);
    if (number != kNoBlock && region[number].state == BlockState::live) {
      place.lane->give_listed(place.region, number);
      return {};
    }
  }
  // In another stream's region, or used on others: there it waits for them.
  return deallocate_slow(address, nullptr, stream);
}

Bytes Pool::Core::held(DeviceAddress address) {
  Grains start = 0;
  const Place place = place_of(address, start);
  if (place.lane == nullptr) return {};
  const std::lock_guard lock(place.lane->lock);
  if (place.lane->covers(place.region, start)) {
    if (const auto planned = place.lane->planned_size(address)) return bytes(grains(*planned));
  }
  const Region& region = place.lane->regions[place.region];
  const BlockNumber number = region.find(start);
  return number == kNoBlock ? Bytes{} : bytes(region[number].size);
}

Result<void> Pool::Core::copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) {
  const std::lock_guard slow(slow_);
  if (pages_.lost) return fail(ErrorCode::unavailable, "the device's context is gone");
  return pages_.called(upstream_.copy(to, from, size, stream));
}

Result<void> Pool::Core::order(StreamId later, StreamId earlier) {
  const std::lock_guard slow(slow_);
  std::array<Lane*, 2> lanes{};
  for (std::size_t i = 0; i < 2; ++i) {
    const StreamId stream = i == 0 ? later : earlier;
    lanes[i] = lane_of(stream);
    if (lanes[i] != nullptr) continue;
    GPUWARDEN_TRY(lanes[i], make_lane(stream));
  }
  if (wait_for(*lanes[0], *lanes[1], lanes[1]->epoch.load(std::memory_order_acquire))) return {};
  return fail(pages_.lost ? ErrorCode::unavailable : ErrorCode::failed,
              fmt::format("stream {:#x} cannot be made to wait for stream {:#x}", later.value, earlier.value),
              pages_.lost ? "the device's context is gone" : "the driver refused, or one of them is being captured");
}

}  // namespace gpuwarden::memory
