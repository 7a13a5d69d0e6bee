// SPDX-License-Identifier: Apache-2.0
// A pool's beginning and end, what is refused, and the way in for what common_path.cpp does not do.
#include "gpuwarden/memory/pool.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <bit>
#include <utility>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

std::unexpected<Error> forked() {
  return fail(ErrorCode::unavailable, "this process was forked from the one that made the pool",
              "a CUDA context does not survive fork(): use spawn, or fork before CUDA is first used");
}

Result<void> check_request(Bytes size, Bytes alignment) {
  if (size.value == 0) return fail(ErrorCode::invalid_argument, "cannot allocate 0 bytes of device memory");
  if (!std::has_single_bit(alignment.value) || alignment > kPage)
    return fail(ErrorCode::invalid_argument, fmt::format("cannot align device memory to {} bytes", alignment.value),
                "alignments are powers of two up to 2 MiB");
  return {};
}

std::unexpected<Error> lost() {
  return fail(ErrorCode::unavailable, "cannot allocate device memory: the device's context is gone",
              "end the process; what it held is given back by the driver");
}

}  // namespace

void Pool::Core::watch_forks() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
}

// NOLINTNEXTLINE(readability-function-size): it is made in one place, by Pool::create
Pool::Core::Core(Upstream& upstream, Bytes total, PoolConfig config, const Strategy& strategy, DeviceAddress base,
                 unsigned region_shift)
    : base_(base),
      region_shift_(region_shift),
      largest_((std::uint64_t{1} << region_shift) - kPage.value),
      process_generation_(generation),
      usable_in_(process_generation_),
      upstream_(upstream),
      config_(std::move(config)),
      strategy_(strategy),
      pages_(upstream, total, config_.limit, config_.keep_free, config_.budget, usable_in_),
      soft_limit_(config_.soft_limit),
      history_(config_.samples) {}

Result<Place> Pool::Core::allocate_slow(Bytes size, StreamId stream, Bytes alignment) {
  if (is_forked()) return forked();
  GPUWARDEN_CHECK(check_request(size, alignment));
  std::unique_lock slow(slow_);
  if (pages_.lost) return lost();
  if (epochs_are_late_) [[unlikely]]
    rebase_epochs();
  Lane* lane = lane_of(stream);
  if (lane == nullptr) {
    GPUWARDEN_TRY(lane, make_lane(stream));
  }
  sample_if_due(*lane);
  // More than the whole device has does not fit into a lane's addresses, and is not to be looked for.
  const bool too_large = size.value > largest_;
  const Grains wanted = too_large ? 0 : grains(size);
  std::unique_lock lane_lock(lane->lock);
  if (alignment != kGrain && !too_large) lane->attend_apart(size.value);
  Attempt attempt{.lane = *lane,
                  .bytes = size,
                  .size = wanted,
                  .alignment = grains(alignment),
                  .region = too_large ? 0 : lane->region_for(wanted),
                  .slow_lock = std::move(slow),
                  .lane_lock = std::move(lane_lock),
                  .found = {},
                  .epoch = 0,
                  .last = {}};
  lane->collect();
  if (too_large) ++out_of_memory_;
  if (too_large || (!search(attempt) && !climb(attempt))) return std::unexpected(report(attempt));
  if (alignment != kGrain && attempt.found.lane == lane) lane->tape.set_apart();
  return attempt.found;
}

Result<void> Pool::Core::check_reach(DeviceAddress base, Bytes size) {
  if (base.value + size.value <= std::uint64_t{1} << BlockHandle::kAddressBits) return {};
  return fail(
      ErrorCode::failed,
      fmt::format("the device's address space at {:#x} lies beyond {} bits", base.value, BlockHandle::kAddressBits),
      "report this with the driver's version");
}

Result<Lane*> Pool::Core::add_lane(StreamId stream) {
  GPUWARDEN_CHECK(upstream_.accepts(stream));
  const unsigned number = lane_count_;
  if (number == kLanes)
    return fail(ErrorCode::unsatisfied, fmt::format("a pool serves at most {} streams", kLanes),
                "share streams, or use several pools");
  const bool wide = number < kWideLanes;
  if (!wide && narrow_base_.value == 0) {
    if (pages_.lost) return lost();
    GPUWARDEN_TRY(const DeviceAddress base, pages_.called(upstream_.reserve(narrow_reservation(region_shift_))));
    if (auto reached = check_reach(base, narrow_reservation(region_shift_)); !reached) {
      static_cast<void>(upstream_.release(base, narrow_reservation(region_shift_)));
      return std::unexpected(std::move(reached).error());
    }
    narrow_base_ = base;
  }
  const unsigned shift = wide ? region_shift_ : region_shift_ - kNarrowBits;
  lanes_[number] = std::make_unique<Lane>(number, stream,
                                          static_cast<Grains>((std::uint64_t{1} << shift) >> kGrainShift), strategy_);
  lanes_[number]->learns_steps =
      wide && strategy_.learns_steps && config_.learn_steps && lanes_[number]->regions[0].is_large();
  lanes_[number]->epoch = first_epoch.load(std::memory_order_relaxed);
  lane_count_.store(number + 1, std::memory_order_release);
  if (wide) wide_count_.store(number + 1, std::memory_order_release);
  return lanes_[number].get();
}

Result<Lane*> Pool::Core::make_lane(StreamId stream) {
  GPUWARDEN_TRY(Lane* const lane, add_lane(stream));
  unsigned at = slot_of(stream);
  while (slots_[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) % kSlots;
  slots_[at].store(lane, std::memory_order_release);
  return lane;
}

Place Pool::Core::place_of(DeviceAddress address, Grains& start) const {
  const unsigned lanes = lane_count_.load(std::memory_order_acquire);
  const auto place_in = [&](DeviceAddress base, unsigned shift, unsigned first, unsigned end) -> Place {
    const std::uint64_t offset = address.value - base.value;
    const std::uint64_t region = offset >> shift;
    if (first >= end || region >= std::uint64_t{end - first} * kRegions) return {};
    start = static_cast<Grains>((offset & ((std::uint64_t{1} << shift) - 1)) >> kGrainShift);
    if (offset % kGrain.value != 0) start = ~Grains{0} - 1;
    return Place{lanes_[first + region / kRegions].get(), static_cast<unsigned>(region % kRegions), kNoBlock, address};
  };
  const Place wide = place_in(base_, region_shift_, 0, std::min(lanes, kWideLanes));
  // The narrow lanes' base is there once one of them is counted.
  if (wide.lane != nullptr || lanes <= kWideLanes) return wide;
  return place_in(narrow_base_, region_shift_ - kNarrowBits, kWideLanes, lanes);
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

void Pool::Core::trim_early(Lane& lane) {
  const std::lock_guard slow(slow_);
  if (!trims_on_) note_recent_demand();
  const std::uint64_t demand = std::ranges::max(recent_demand_);
  const Bytes kept{demand + demand / kTrimMargin};
  const Bytes slice = kPage * kTrimPages;
  const Bytes reserved = pages_.reserved();
  const Bytes gone = trim_to(std::max(kept, reserved - std::min(reserved, slice)));
  trims_on_ = gone == slice;
  const LaneGuard lock(lane);
  lane.merges = trims_on_ ? lane.trim_every - std::min(lane.trim_every, kTrimPages) : 0;
}

void Pool::Core::note_recent_demand() {
  std::uint64_t demand = 0;
  for_each_lane([&](Lane& lane) {
    const LaneGuard lock(lane);
    demand += std::max(lane.live(), std::exchange(lane.trimmed_crest, 0));
  });
  // What a step needs at its peak is wanted again in the next one.
  recent_demand_[next_demand_++ % recent_demand_.size()] = demand << kGrainShift;
}

Result<void> Pool::Core::deallocate_slow(DeviceAddress address, const Bytes* size, StreamId stream) {
  if (is_forked()) return forked();
  Grains start = 0;
  const Place place = place_of(address, start);
  if (place.lane == nullptr) return std::unexpected(bad_address(address, place, start));
  Lane& lane = *place.lane;
  Lane* user = lane_of(stream);
  if (user == nullptr) {
    const std::lock_guard slow(slow_);
    user = lane_of(stream);
    if (user == nullptr) {
      GPUWARDEN_TRY(user, make_lane(stream));
    }
  }
  user = &usual(*user);
  bool shared = false;
  {
    const std::lock_guard lock(lane.lock);
    if (lane.covers(place.region, start)) lane.leave_script();
    Region& region = lane.regions[place.region];
    const BlockNumber number = region.find(start);
    shared = number != kNoBlock && region[number].state == BlockState::shared;
    if (number == kNoBlock || (region[number].state != BlockState::live && !shared))
      return std::unexpected(bad_address(address, place, start));
    if (size != nullptr && requested(region[number]) != size->value)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("cannot free {:#x} as {} bytes: it has {}", address.value, size->value,
                              requested(region[number])),
                  "free with the size that was asked for");
    if (user->stream != lane.stream) lane.expect_foreign_free(requested(region[number]));
    if (shared) {
      // Below, in the locks' order.
    } else if (stream == lane.stream) {
      lane.give(place.region, number);
    } else {
      lane.give_foreign(place.region, number, user->number, user->epoch.load(std::memory_order_acquire));
    }
    if (!shared && lane.merges < lane.trim_every) return {};
  }
  if (shared) return deallocate_shared(place, start, *user);
  trim_early(lane);
  return {};
}

Result<Bytes> Pool::Core::size_of(DeviceAddress address) {
  Grains start = 0;
  const Place place = place_of(address, start);
  if (place.lane == nullptr) return fail(ErrorCode::not_found, "this pool never gave that address out");
  const std::lock_guard lock(place.lane->lock);
  if (place.lane->covers(place.region, start)) {
    if (const auto planned = place.lane->planned_size(address)) return *planned;
  }
  const Region& region = place.lane->regions[place.region];
  const BlockNumber number = region.find(start);
  if (number == kNoBlock || (region[number].state != BlockState::live && region[number].state != BlockState::shared))
    return fail(ErrorCode::not_found, "no live block starts at that address");
  return Bytes(requested(region[number]));
}

Pool::Pool(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Pool::~Pool() = default;

namespace {

/// Where all regions lie; each is 2 to the `shift` bytes long.
struct AddressSpace {
  DeviceAddress base;
  unsigned shift = 0;
};

/// Each region has four times as much address space as the device has memory: live blocks lie scattered, and between
/// them there must be a place to move pages to. Where the driver has not that much, half as much again must do.
Result<AddressSpace> reserve_space(Upstream& upstream, Bytes total) {
  const auto shift_of = [](std::uint64_t bytes) {
    return static_cast<unsigned>(std::bit_width(std::max(bytes, 64 * kPage.value) - 1));
  };
  constexpr unsigned kMost = 31 + kGrainShift;
  if (total.value > (std::uint64_t{1} << kMost))  // four times as much would be no number
    return fail(ErrorCode::invalid_argument, fmt::format("a pool cannot serve {} bytes", total.value));
  const unsigned least = shift_of(total.value + total.value / 2);
  if (least > kMost) return fail(ErrorCode::invalid_argument, fmt::format("a pool cannot serve {} bytes", total.value));
  unsigned shift = std::min(kMost, shift_of(4 * total.value));
  const auto all = [&] { return Pool::Core::wide_reservation(shift); };
  auto base = upstream.reserve(all());
  for (; !base && base.error().code == ErrorCode::unsatisfied && shift > least; base = upstream.reserve(all())) --shift;
  if (!base) return std::unexpected(base.error());
  if (auto reached = Pool::Core::check_reach(*base, all()); !reached) {
    static_cast<void>(upstream.release(*base, all()));
    return std::unexpected(std::move(reached).error());
  }
  return AddressSpace{*base, shift};
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::create(Upstream& upstream, PoolConfig config) {
  Core::watch_forks();
  GPUWARDEN_TRY(const DeviceMemory device, upstream.memory());
  const PoolLimits limits{.limit = config.limit, .limit_fraction = config.limit_fraction, .soft_limit = std::nullopt};
  GPUWARDEN_TRY(config.limit, Core::hard_limit(limits, device.total));
  if (device.total < kPage) return fail(ErrorCode::invalid_argument, "a device without memory cannot have a pool");
  const Strategy& strategy = config.strategy != nullptr ? *config.strategy : strategies().front();
  GPUWARDEN_TRY(const AddressSpace space, reserve_space(upstream, device.total));
  return std::unique_ptr<Pool>(
      new Pool(std::make_unique<Core>(upstream, device.total, std::move(config), strategy, space.base, space.shift)));
}

// In a forked child a lock may be held for ever by a thread that is not there, and the driver must not be called.

Result<void> Pool::record_stream(DeviceAddress address, StreamId stream) {
  if (core_->is_forked()) return forked();
  return core_->record_stream(address, stream);
}

Result<void> Pool::order(StreamId later, StreamId earlier) {
  if (core_->is_forked()) return forked();
  return core_->order(later, earlier);
}

Result<CaptureId> Pool::begin_capture(StreamId stream) {
  if (core_->is_forked()) return forked();
  return core_->begin_capture(stream);
}

Result<void> Pool::join_capture(CaptureId id, StreamId stream) {
  if (core_->is_forked()) return forked();
  return core_->join_capture(id, stream);
}

Result<void> Pool::end_capture(CaptureId id) {
  if (core_->is_forked()) return forked();
  return core_->end_capture(id);
}

Result<void> Pool::release_capture(CaptureId id, StreamId replayed_on) {
  if (core_->is_forked()) return forked();
  return core_->release_capture(id, replayed_on);
}

Result<Bytes> Pool::trim_idle(Clock::SteadyTime now, std::chrono::nanoseconds idle_for, Bytes keep,
                              const std::stop_token& stop) {
  if (core_->is_forked()) return forked();
  return core_->trim_idle(now, idle_for, keep, stop);
}

Bytes Pool::idle_since(Clock::SteadyTime time) {
  if (core_->is_forked()) return {};
  return core_->idle_since(time);
}

Fragmentation Pool::fragmentation() {
  if (core_->is_forked()) return {};
  return core_->fragmentation();
}

FragmentationSample Pool::sample_fragmentation(std::optional<Clock::SteadyTime> time) {
  if (core_->is_forked()) return {};
  return core_->sample_fragmentation(time);
}

std::vector<FragmentationSample> Pool::fragmentation_history() const {
  if (core_->is_forked()) return {};
  return core_->fragmentation_history();
}

Result<Bytes> Pool::size_of(DeviceAddress address) {
  if (core_->is_forked()) return forked();
  return core_->size_of(address);
}

Result<Bytes> Pool::trim(Bytes keep) {
  if (core_->is_forked()) return forked();
  return core_->trim(keep);
}

Result<void> Pool::set_limit(const PoolLimits& limits) {
  if (core_->is_forked()) return forked();
  return core_->set_limit(limits);
}

std::uint64_t Pool::segments() {
  if (core_->is_forked()) return 0;
  return core_->segments();
}

Result<void> Pool::check_process() const {
  if (core_->is_forked()) return forked();
  return {};
}

PoolStatus Pool::status() {
  if (core_->is_forked()) return {};
  return core_->status();
}

Result<void> Pool::check() {
  if (core_->is_forked()) return forked();
  return core_->check();
}

}  // namespace gpuwarden::memory
