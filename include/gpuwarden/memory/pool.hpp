// SPDX-License-Identifier: Apache-2.0
// A pool of one device's memory. Its address space is reserved once; physical pages of 2 MiB are put behind it where
// they are needed and moved when they are idle, so that what is reserved follows the pages that hold live data.
//
//   ArithmeticUpstream device(80_GiB);
//   auto pool = Pool::create(device, {}).value();
//   auto address = pool->allocate(20_MiB, stream);
//   pool->deallocate(*address, stream);
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/memory/strategy.hpp"
#include "gpuwarden/memory/upstream.hpp"

namespace gpuwarden::memory {

/// What is tried, in the strategy's order, when no free block fits. After each one the pool is searched again.
enum class Rung : std::uint8_t {
  tidy,          ///< merge the stream's quick lists and what other streams gave back and are done with
  steal_done,    ///< take a free block of another stream whose work on it is done
  grow_near,     ///< new pages as long as reserved memory stays near the peak of live memory
  remap,         ///< move idle pages to where they are needed; new pages for the rest
  wait_foreign,  ///< let the stream wait for others that gave its memory back
  grow,          ///< new pages
  steal_wait,    ///< take a free block of another stream and let this one wait for it
  flush_all,     ///< merge the quick lists of all streams, then move idle pages
  synchronize,   ///< block until all streams are done with what they gave back, then all of it again
  callbacks,     ///< ask the registered callbacks to give memory back
  wait_others,   ///< wait for other processes, if allowed
};
inline constexpr std::size_t kRungs = 11;

std::string_view to_string(Rung rung);

struct RungCount {
  std::uint64_t tried = 0;
  std::uint64_t helped = 0;
  std::uint64_t nanoseconds = 0;
};

struct PoolConfig {
  /// nullptr: the default.
  const Strategy* strategy = nullptr;
  /// At most so much physical memory; empty: what the device has.
  std::optional<Bytes> limit;
  /// So much stays free on the device for others.
  Bytes keep_free;
  /// Asked in turn when memory is out, without any lock held; they may call the pool. True: try again.
  std::vector<std::function<bool(Bytes needed)>> give_back;
  /// Called last; true: somebody else's memory may have come free, try again.
  std::function<bool(Bytes needed)> wait_for_others;
  /// Who else holds what on the device, for the report; may be empty.
  std::function<std::string()> who_holds_what;
};

/// All sizes in bytes. `live` is what was asked for in whole grains; `requested` what was asked for.
struct PoolStatus {
  Bytes reserved;  ///< physical memory
  Bytes peak_reserved;
  Bytes live;
  Bytes peak_live;  ///< exact with one stream; with several, the sum of their peaks: an upper bound
  Bytes requested;
  Bytes cached;        ///< in quick lists, or given back on another stream and not yet taken over
  Bytes free;          ///< reserved, but neither live nor cached
  Bytes spare;         ///< the part of `free` that is mapped nowhere
  Bytes largest_free;  ///< the largest request that needs no upstream call
  Bytes limit;
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t quick_hits = 0;
  std::uint64_t upstream_calls = 0;
  std::uint64_t pages_created = 0;
  std::uint64_t pages_moved = 0;
  std::uint64_t out_of_memory = 0;
  Bytes metadata;  ///< host memory that describes the blocks
  std::array<RungCount, kRungs> rungs{};

  double utilization() const { return reserved.value == 0 ? 1.0 : ratio(live, reserved); }
};

/// A block that is given back without a look-up; as small as its address. Empty: address 0.
class BlockHandle {
 public:
  BlockHandle() = default;
  /// `address` is that of a block, a multiple of kGrain below 2^48; `number` the block's in its region.
  BlockHandle(DeviceAddress address, std::uint32_t number) {
    const std::uint64_t known = number < kUnknown ? number : kUnknown;
    bits_ = address.value | (known & kLowMask) | (known >> kLowBits << kAddressBits);
  }

  DeviceAddress address() const { return {bits_ & kAddressMask}; }
  /// What the constructor was given, or kUnknown: look it up.
  std::uint32_t number() const {
    return static_cast<std::uint32_t>((bits_ & kLowMask) | (bits_ >> kAddressBits << kLowBits));
  }

  static constexpr std::uint32_t kUnknown = (1U << 25U) - 1;
  static constexpr unsigned kAddressBits = 48;

 private:
  static constexpr unsigned kLowBits = 9;
  static constexpr std::uint64_t kLowMask = kGrain.value - 1;
  static constexpr std::uint64_t kAddressMask = ((std::uint64_t{1} << kAddressBits) - 1) & ~kLowMask;

  std::uint64_t bits_ = 0;
};

/// Safe to use from several threads; streams do not share a lock unless memory is short. After fork() the child's calls
/// fail with ErrorCode::unavailable, as its CUDA context does.
class Pool {
 public:
  /// The upstream must outlive the pool.
  static Result<std::unique_ptr<Pool>> create(Upstream& upstream, PoolConfig config);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Gives everything back, live or not.
  ~Pool();

  /// Memory for work on `stream`, aligned to `alignment` (a power of two up to 2 MiB, at least 512 bytes are kept).
  /// invalid_argument: size 0, no such size or alignment; unsatisfied: out of memory, with a report; unavailable: the
  /// context is gone. After a failure everything is as before.
  Result<DeviceAddress> allocate(Bytes size, StreamId stream, Bytes alignment = kGrain);
  /// Gives memory back as of the work submitted to `stream` so far. There it is reused at once, elsewhere after that
  /// work. invalid_argument: given back twice, or never given out by this pool; nothing changes then.
  Result<void> deallocate(DeviceAddress address, StreamId stream);
  /// The same, after a check that `size` is what was asked for.
  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream);

  Result<BlockHandle> allocate_block(Bytes size, StreamId stream);
  Result<void> deallocate_block(BlockHandle block, StreamId stream);

  /// What was asked for when `address` was given out.
  Result<Bytes> size_of(DeviceAddress address);

  /// Gives idle memory back to the device until no more than `keep` is reserved; how much went.
  Result<Bytes> trim(Bytes keep = Bytes{});
  PoolStatus status();
  /// Whether every block, list and counter agrees with every other; the first that does not.
  Result<void> check();

  class Core;

 private:
  explicit Pool(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace gpuwarden::memory
