// SPDX-License-Identifier: Apache-2.0
// What nearly every call does: the lane's favoured thread takes a block of the right size from a quick list, or puts
// one there. All else is called last, so that this needs no frame for it: a hit in a bin, then a lane's lock for other
// threads, then the slow path. Places are cut and merged with the lane's lock held by the caller.
#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

/// What a caller gets for a block.
template <class Value>
Value value_of(DeviceAddress address, BlockNumber number);

template <>
[[gnu::always_inline]] inline DeviceAddress value_of(DeviceAddress address, BlockNumber) {
  return address;
}

template <>
[[gnu::always_inline]] inline BlockHandle value_of(DeviceAddress address, BlockNumber number) {
  return BlockHandle(address, number);
}

}  // namespace

template <class Value>
[[gnu::always_inline]] inline Value Pool::Core::hand_out(Lane& lane, unsigned region, BlockNumber number, Bytes size) {
  Block& block = lane.regions[region][number];
  const DeviceAddress address{base_of(lane, region).value + (std::uint64_t{block.start} << kGrainShift)};
  lane.count_taken(block, size.value);
  return value_of<Value>(address, number);
}

/// For any thread, and for the favoured one when its lane has no quick block: a bin, then the slow path.
template <class Value>
[[gnu::noinline]] Result<Value> Pool::Core::allocate_listed(Lane* locked, Bytes size, StreamId stream,
                                                            Bytes alignment) {
  Lane* const lane = locked != nullptr ? locked : lock_lane(size, stream, alignment);
  if (lane != nullptr && locked == nullptr && lane->tape.is_due()) return allocate_attended<Value>(*lane, size, stream);
  if (lane != nullptr) {
    // Let go of however this ends: there may be no host memory for another node.
    const std::lock_guard held(lane->lock, std::adopt_lock);
    const Grains wanted = grains(size);
    const unsigned region = lane->region_for(wanted);
    BlockNumber number = locked != nullptr ? kNoBlock : lane->take_quick(region, wanted);
    if (number == kNoBlock && lane->inbox.has_any()) [[unlikely]] {
      lane->collect();
      number = lane->take_quick(region, wanted);
    }
    if (number == kNoBlock) number = lane->take_listed(region, wanted);
    if (number != kNoBlock) [[likely]]
      return hand_out<Value>(*lane, region, number, size);
  }
  const auto place = allocate_slow(size, stream, alignment);
  if (!place) return std::unexpected(place.error());
  return value_of<Value>(place->address, place->block);
}

/// Where the lane wants to look at the operation first; its lock is held, and let go of.
template <class Value>
[[gnu::noinline]] Result<Value> Pool::Core::allocate_attended(Lane& lane, Bytes size, StreamId stream) {
  {
    std::unique_lock held(lane.lock, std::adopt_lock);
    DeviceAddress address;
    Attention attention = lane.attend_allocation(size.value, address);
    if (attention == Attention::begin) {
      held.unlock();
      begin_script(lane);
      held.lock();
      if (lane.follows()) attention = lane.attend_allocation(size.value, address);
    }
    if (attention == Attention::followed) return value_of<Value>(address, BlockHandle::kUnknown);
    const Grains wanted = grains(size);
    const unsigned region = lane.region_for(wanted);
    if (is_own_process()) {
      BlockNumber number = lane.take_quick(region, wanted);
      if (number == kNoBlock && lane.inbox.has_any()) {
        lane.collect();
        number = lane.take_quick(region, wanted);
      }
      if (number == kNoBlock) number = lane.take_listed(region, wanted);
      if (number != kNoBlock) return hand_out<Value>(lane, region, number, size);
    }
  }
  const auto place = allocate_slow(size, stream, kGrain);
  if (!place) return std::unexpected(place.error());
  return value_of<Value>(place->address, place->block);
}

Lane* Pool::Core::lock_lane(Bytes size, StreamId stream, Bytes alignment) {
  if (size.value - 1 >= largest_ || alignment != kGrain || !is_own_process()) return nullptr;
  Lane* const lane = lane_of(stream);
  if (lane != nullptr) lane->lock.lock();
  return lane;
}

template <class Value>
[[gnu::always_inline]] inline Result<Value> Pool::Core::allocate(Bytes size, StreamId stream, Bytes alignment) {
  // Size 0 wraps around, so that one comparison finds it and all that is too large.
  Lane* const lane = slots_[slot_of(stream)].load(std::memory_order_acquire);
  if (size.value - 1 >= largest_ || alignment != kGrain || !is_own_process() || lane == nullptr ||
      lane->stream != stream || !lane->lock.try_lock_favoured()) [[unlikely]]
    return allocate_listed<Value>(nullptr, size, stream, alignment);
  const ScriptEntry* const next = lane->cursor.load(std::memory_order_relaxed);
  if (next->key == size.value) {
    lane->cursor.store(next + 1, std::memory_order_relaxed);
    const DeviceAddress address{next->value};
    lane->lock.unlock_favoured();
    return value_of<Value>(address, BlockHandle::kUnknown);
  }
  if (lane->tape.is_due()) [[unlikely]]
    return allocate_attended<Value>(*lane, size, stream);
  const Grains wanted = grains(size);
  const unsigned region = lane->region_for(wanted);
  const BlockNumber number = lane->take_quick(region, wanted);
  if (number == kNoBlock) return allocate_listed<Value>(lane, size, stream, alignment);
  const Value value = hand_out<Value>(*lane, region, number, size);
  lane->lock.unlock_favoured();
  return value;
}

/// The lane that an address belongs to if it is that of `stream` and wide, and where in it; nullptr: a case for the
/// slow path.
[[gnu::always_inline]] inline Lane* Pool::Core::lane_at(DeviceAddress address, StreamId stream, unsigned& region,
                                                        Grains& start) const {
  const std::uint64_t offset = address.value - base_.value;
  const std::uint64_t number = offset >> region_shift_;
  if (number >= std::uint64_t{wide_count_.load(std::memory_order_acquire)} * kRegions || offset % kGrain.value != 0 ||
      !is_own_process()) [[unlikely]]
    return nullptr;
  Lane* const lane = lanes_[number / kRegions].get();
  region = number % kRegions;
  start = static_cast<Grains>((offset & ((std::uint64_t{1} << region_shift_) - 1)) >> kGrainShift);
  return lane->stream == stream ? lane : nullptr;
}

/// Gives a live block back that its lane's quick lists have no room for; unlocks.
[[gnu::noinline]] void Pool::Core::give_listed(Lane& lane, unsigned region, BlockNumber number) {
  lane.give_listed(region, number);
  lane.lock.unlock();
}

/// Where the lane wants to look at the operation first; its lock is held, and let go of.
[[gnu::noinline]] Result<void> Pool::Core::deallocate_attended(Lane& lane, const Place& place, Grains start,
                                                               const Bytes* size, StreamId stream) {
  {
    std::unique_lock held(lane.lock, std::adopt_lock);
    Attention attention = lane.attend_free(place.region, start, place.address, size);
    if (attention == Attention::begin) {
      held.unlock();
      begin_script(lane);
      held.lock();
      if (lane.follows()) attention = lane.attend_free(place.region, start, place.address, size);
    }
    if (attention == Attention::followed) return {};
    const Region& blocks = lane.regions[place.region];
    const BlockNumber number = blocks.find(start);
    if (number != kNoBlock && is_returnable(lane, blocks[number]) &&
        (size == nullptr || requested(blocks[number]) == size->value)) {
      lane.give(place.region, number);
      return {};
    }
  }
  return deallocate_slow(place.address, size, stream);
}

/// The same for every case that is not common.
[[gnu::noinline]] Result<void> Pool::Core::deallocate_any(DeviceAddress address, const Bytes* size, StreamId stream) {
  unsigned region = 0;
  Grains start = 0;
  if (Lane* const lane = lane_at(address, stream, region, start); lane != nullptr) {
    const bool busy = lane->lock.is_others() || leaves_always.load(std::memory_order_relaxed);
    if (busy && lane->leave(region, start, size)) return {};
    lane->lock.lock();
    if (busy) lane->make_room();
    if (lane->tape.is_due())
      return deallocate_attended(*lane, Place{lane, region, kNoBlock, address}, start, size, stream);
    const Region& blocks = lane->regions[region];
    const BlockNumber number = blocks.find(start);
    if (number != kNoBlock && is_returnable(*lane, blocks[number]) &&
        (size == nullptr || requested(blocks[number]) == size->value)) {
      lane->give(region, number);
      lane->lock.unlock();
      return {};
    }
    lane->lock.unlock();
  }
  return deallocate_slow(address, size, stream);
}

/// `known`: the block's number if there is no need to look it up.
[[gnu::always_inline]] inline Result<void> Pool::Core::deallocate(DeviceAddress address, const Bytes* size,
                                                                  StreamId stream, BlockNumber known) {
  unsigned region = 0;
  Grains start = 0;
  Lane* const lane = lane_at(address, stream, region, start);
  if (lane == nullptr || !lane->lock.try_lock_favoured()) [[unlikely]]
    return deallocate_any(address, size, stream);
  const ScriptEntry* const next = lane->cursor.load(std::memory_order_relaxed);
  if (next->key == (word::kFree | address.value) && (size == nullptr || next->value == size->value)) {
    lane->cursor.store(next + 1, std::memory_order_relaxed);
    lane->lock.unlock_favoured();
    return {};
  }
  if (lane->tape.is_due()) [[unlikely]]
    return deallocate_attended(*lane, Place{lane, region, kNoBlock, address}, start, size, stream);
  const Region& blocks = lane->regions[region];
  BlockNumber number = known;
  if (known == BlockHandle::kUnknown) {
    number = blocks.find(start);
  } else if (known >= blocks.numbers() || blocks[known].start != start) {
    number = kNoBlock;
  }
  const bool good = number != kNoBlock && is_returnable(*lane, blocks[number]) &&
                    (size == nullptr || requested(blocks[number]) == size->value);
  if (!good) [[unlikely]] {
    lane->lock.unlock_favoured();
    return deallocate_slow(address, size, stream);
  }
  if (lane->give_quick(region, number)) {
    lane->lock.unlock_favoured();
  } else {
    give_listed(*lane, region, number);
  }
  return {};
}

Result<DeviceAddress> Pool::allocate(Bytes size, StreamId stream, Bytes alignment) {
  return core_->allocate<DeviceAddress>(size, stream, alignment);
}

Result<BlockHandle> Pool::allocate_block(Bytes size, StreamId stream) {
  return core_->allocate<BlockHandle>(size, stream, kGrain);
}

Result<void> Pool::deallocate(DeviceAddress address, StreamId stream) {
  return core_->deallocate(address, nullptr, stream, BlockHandle::kUnknown);
}

Result<void> Pool::deallocate(DeviceAddress address, Bytes size, StreamId stream) {
  return core_->deallocate(address, &size, stream, BlockHandle::kUnknown);
}

Result<void> Pool::deallocate_block(BlockHandle block, StreamId stream) {
  return core_->deallocate(block.address(), nullptr, stream, block.number());
}

}  // namespace gpuwarden::memory
