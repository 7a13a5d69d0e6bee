// SPDX-License-Identifier: Apache-2.0
// The common path: a lane's lock, a quick list or a bin, and the counters.
#include "gpuwarden/memory/pool.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <bit>
#include <utility>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

/// How often this process is a child since the program began. A child shares no context with its parent.
std::atomic<std::uint64_t> g_generation = 0;  // NOLINT(readability-identifier-naming)

void watch_forks() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { g_generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
}

std::uint64_t generation() { return g_generation.load(std::memory_order_relaxed); }

std::unexpected<Error> forked() {
  return fail(ErrorCode::unavailable, "this process was forked from the one that made the pool",
              "a CUDA context does not survive fork(): use spawn, or make the pool in the child");
}

std::unexpected<Error> bad_request(Bytes size, Bytes alignment, std::uint64_t largest) {
  if (size.value == 0) return fail(ErrorCode::invalid_argument, "cannot allocate 0 bytes of device memory");
  if (alignment.value == 0 || !std::has_single_bit(alignment.value) || alignment > kPage)
    return fail(ErrorCode::invalid_argument, fmt::format("cannot align device memory to {} bytes", alignment.value),
                "alignments are powers of two up to 2 MiB");
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("cannot allocate {} bytes: the pool's device could never hold more than {}", size.value, largest));
}

constexpr Grains grains(Bytes size) { return static_cast<Grains>((size.value + kGrain.value - 1) >> kGrainShift); }

}  // namespace

Pool::Core::Core(Upstream& upstream, PoolConfig config, const Strategy& strategy, DeviceAddress base,
                 unsigned region_shift)
    : upstream_(upstream),
      config_(std::move(config)),
      strategy_(strategy),
      base_(base),
      region_shift_(region_shift),
      largest_((std::uint64_t{1} << region_shift) - kPage.value),
      process_generation_(generation()),
      pages_(upstream, config_.limit, config_.keep_free) {}

Result<Place> Pool::Core::allocate(Bytes size, StreamId stream, Bytes alignment) {
  // Size 0 wraps around, so that one comparison finds it and all that is too large.
  if (size.value - 1 >= largest_ || alignment != kGrain || process_generation_ != generation()) [[unlikely]]
    return allocate_slow(size, stream, alignment);
  Lane* const lane = lane_of(stream);
  if (lane == nullptr) [[unlikely]]
    return allocate_slow(size, stream, alignment);
  const Grains wanted = grains(size);
  const unsigned region = lane->region_for(wanted);
  {
    const std::lock_guard lock(lane->lock);
    const BlockNumber number = lane->take(region, wanted);
    if (number != kNoBlock) [[likely]] {
      lane->count_taken(lane->regions[region][number], size.value);
      Place place{lane, region, number, {}};
      place.address = address_of(place);
      return place;
    }
  }
  return allocate_slow(size, stream, alignment);
}

Result<Place> Pool::Core::allocate_slow(Bytes size, StreamId stream, Bytes alignment) {
  if (process_generation_ != generation()) return forked();
  if (size.value - 1 >= largest_ || !std::has_single_bit(alignment.value) || alignment > kPage)
    return bad_request(size, alignment, largest_);
  std::unique_lock slow(slow_);
  Lane* lane = lane_of(stream);
  if (lane == nullptr) {
    GPUWARDEN_TRY(lane, make_lane(stream));
  }
  const Grains wanted = grains(size);
  Attempt attempt{.lane = *lane,
                  .bytes = size,
                  .size = wanted,
                  .alignment = grains(alignment),
                  .region = lane->region_for(wanted),
                  .slow_lock = std::move(slow),
                  .lane_lock = std::unique_lock(lane->lock),
                  .found = {},
                  .last = {}};
  if (!search(attempt) && !climb(attempt)) return std::unexpected(report(attempt));
  return attempt.found;
}

Result<Lane*> Pool::Core::make_lane(StreamId stream) {
  const unsigned number = lane_count_;
  if (number == kLanes)
    return fail(ErrorCode::unsatisfied, fmt::format("a pool serves at most {} streams", kLanes),
                "share streams, or use several pools");
  lanes_[number] = std::make_unique<Lane>(
      number, stream, static_cast<Grains>((std::uint64_t{1} << region_shift_) >> kGrainShift), strategy_);
  lane_count_.store(number + 1, std::memory_order_release);
  unsigned at = slot_of(stream);
  while (slots_[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) % kSlots;
  slots_[at].store(lanes_[number].get(), std::memory_order_release);
  return lanes_[number].get();
}

Place Pool::Core::place_of(DeviceAddress address, Grains& start) const {
  const std::uint64_t offset = address.value - base_.value;
  const std::uint64_t region = offset >> region_shift_;
  if (region >= std::uint64_t{lane_count_.load(std::memory_order_acquire)} * kRegions) return {};
  start = static_cast<Grains>((offset & ((std::uint64_t{1} << region_shift_) - 1)) >> kGrainShift);
  if (offset % kGrain.value != 0) start = ~Grains{0} - 1;
  return Place{lanes_[region / kRegions].get(), static_cast<unsigned>(region % kRegions), kNoBlock, address};
}

Error Pool::Core::bad_address(DeviceAddress address, const Place& place, Grains start) const {
  const auto refuse = [&](std::string_view why, std::string hint) {
    return Error{ErrorCode::invalid_argument, fmt::format("cannot free {:#x}: {}", address.value, why),
                 std::move(hint)};
  };
  if (place.lane == nullptr)
    return refuse("this pool never gave it out", "free it where it was allocated, on the same device");
  const BlockNumber number = place.lane->regions[place.region].find(start);
  if (number == kNoBlock)
    return refuse("no block starts there", "it was freed twice, or it points into the middle of a block");
  return refuse("it is free already", "it was freed twice");
}

bool Pool::Core::is_own_process() const { return process_generation_ == generation(); }

void Pool::Core::trim_early(Lane& lane) {
  {
    const std::lock_guard lock(lane.lock);
    lane.merges = 0;
  }
  const std::uint64_t live = live_bytes();
  static_cast<void>(trim(Bytes(live + live / 8)));
}

Result<void> Pool::Core::deallocate(DeviceAddress address, const Bytes* size, StreamId stream) {
  if (process_generation_ != generation()) [[unlikely]]
    return forked();
  Grains start = 0;
  Place place = place_of(address, start);
  if (place.lane == nullptr) [[unlikely]]
    return std::unexpected(bad_address(address, place, start));
  // The stream's epoch is read before the lock, after the caller submitted its work.
  const Lane* const user = place.lane->stream == stream ? nullptr : lane_of(stream);
  if (user == nullptr && place.lane->stream != stream) [[unlikely]] {
    const std::lock_guard slow(slow_);
    if (lane_of(stream) == nullptr) GPUWARDEN_CHECK(make_lane(stream));
  }
  Lane& lane = *place.lane;
  bool merged_often = false;
  Result<void> result;
  {
    const std::lock_guard lock(lane.lock);
    place.block = lane.regions[place.region].find(start);
    if (place.block == kNoBlock || lane.regions[place.region][place.block].state != BlockState::live) [[unlikely]]
      return std::unexpected(bad_address(address, place, start));
    result = give(place, size, stream);
    merged_often = lane.merges >= lane.trim_every;
  }
  if (merged_often) [[unlikely]]
    trim_early(lane);
  return result;
}

Result<void> Pool::Core::deallocate_block(const BlockHandle& block, StreamId stream) {
  if (process_generation_ != generation()) [[unlikely]]
    return forked();
  if (block.region >= lane_count_.load(std::memory_order_acquire) * kRegions) [[unlikely]]
    return deallocate(block.address, nullptr, stream);
  const Place place{lanes_[block.region / kRegions].get(), block.region % kRegions, block.block, block.address};
  if (place.lane->stream != stream) return deallocate(block.address, nullptr, stream);
  {
    const std::lock_guard lock(place.lane->lock);
    const Region& region = place.lane->regions[place.region];
    if (place.block < region.numbers() && region[place.block].state == BlockState::live &&
        address_of(place) == block.address) [[likely]]
      return give(place, nullptr, stream);
  }
  return deallocate(block.address, nullptr, stream);  // which knows what is wrong
}

Result<void> Pool::Core::give(Place place, const Bytes* size, StreamId stream) {
  Lane& lane = *place.lane;
  const Block& block = lane.regions[place.region][place.block];
  if (size != nullptr) {
    const std::uint64_t requested = (std::uint64_t{block.size} << kGrainShift) - block.left;
    if (requested != size->value) [[unlikely]]
      return fail(ErrorCode::invalid_argument,
                  fmt::format("cannot free {:#x} as {} bytes: it has {}", place.address.value, size->value, requested),
                  "free with the size that was asked for");
  }
  if (lane.stream == stream) [[likely]] {
    lane.give(place.region, place.block);
    return {};
  }
  const Lane& user = *lane_of(stream);
  lane.give_foreign(place.region, place.block, user.number, user.epoch.load(std::memory_order_acquire));
  return {};
}

Result<Bytes> Pool::Core::size_of(DeviceAddress address) {
  Grains start = 0;
  const Place place = place_of(address, start);
  if (place.lane == nullptr) return fail(ErrorCode::not_found, "this pool never gave that address out");
  const std::lock_guard lock(place.lane->lock);
  const Region& region = place.lane->regions[place.region];
  const BlockNumber number = region.find(start);
  if (number == kNoBlock || region[number].state != BlockState::live)
    return fail(ErrorCode::not_found, "no live block starts at that address");
  return Bytes((std::uint64_t{region[number].size} << kGrainShift) - region[number].left);
}

Pool::Pool(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Pool::~Pool() = default;

Result<std::unique_ptr<Pool>> Pool::create(Upstream& upstream, PoolConfig config) {
  watch_forks();
  GPUWARDEN_TRY(const DeviceMemory device, upstream.memory());
  if (device.total < kPage) return fail(ErrorCode::invalid_argument, "a device without memory cannot have a pool");
  // Half as much address space again as memory, so that there is always a place to move pages to.
  const std::uint64_t region = std::bit_ceil(std::max(device.total.value + device.total.value / 2, 16 * kPage.value));
  const auto shift = static_cast<unsigned>(std::countr_zero(region));
  if (shift - kGrainShift >= 32)
    return fail(ErrorCode::invalid_argument, fmt::format("a pool cannot serve {} bytes", device.total.value));
  const Strategy& strategy = config.strategy != nullptr ? *config.strategy : strategies().front();
  GPUWARDEN_TRY(const DeviceAddress base, upstream.reserve(Bytes(region * kRegions * kLanes)));
  return std::unique_ptr<Pool>(new Pool(std::make_unique<Core>(upstream, std::move(config), strategy, base, shift)));
}

Result<DeviceAddress> Pool::allocate(Bytes size, StreamId stream, Bytes alignment) {
  const auto place = core_->allocate(size, stream, alignment);
  if (!place) [[unlikely]]
    return std::unexpected(place.error());
  return place->address;
}

Result<void> Pool::deallocate(DeviceAddress address, StreamId stream) {
  return core_->deallocate(address, nullptr, stream);
}

Result<void> Pool::deallocate(DeviceAddress address, Bytes size, StreamId stream) {
  return core_->deallocate(address, &size, stream);
}

Result<BlockHandle> Pool::allocate_block(Bytes size, StreamId stream) {
  const auto place = core_->allocate(size, stream, kGrain);
  if (!place) [[unlikely]]
    return std::unexpected(place.error());
  return BlockHandle{place->address, Core::region_number(*place), place->block};
}

Result<void> Pool::deallocate_block(const BlockHandle& block, StreamId stream) {
  return core_->deallocate_block(block, stream);
}

Result<Bytes> Pool::size_of(DeviceAddress address) { return core_->size_of(address); }
Result<Bytes> Pool::trim(Bytes keep) { return core_->trim(keep); }
PoolStatus Pool::status() { return core_->status(); }
Result<void> Pool::check() { return core_->check(); }

}  // namespace gpuwarden::memory
