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

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/memory/budget.hpp"
#include "gpuwarden/memory/fragmentation.hpp"
#include "gpuwarden/memory/layout.hpp"
#include "gpuwarden/memory/out_of_memory.hpp"
#include "gpuwarden/memory/rung.hpp"
#include "gpuwarden/memory/strategy.hpp"
#include "gpuwarden/memory/upstream.hpp"

namespace gpuwarden::memory {

struct PoolConfig {
  /// nullptr: the default.
  const Strategy* strategy = nullptr;
  /// At most so much physical memory; empty: what the device has.
  std::optional<Bytes> limit;
  /// The same as a share of the device's total; the smaller of both holds.
  std::optional<double> limit_fraction;
  /// Above so much physical memory everything that does not block is tried before new pages are taken, and a Trimmer
  /// gives idle ones back however young they are.
  std::optional<Bytes> soft_limit;
  /// Shared with the process's other pools on this device; may be empty.
  std::shared_ptr<MemoryBudget> budget;
  /// So much stays free on the device for others.
  Bytes keep_free;
  /// A sample of the fragmentation at least so many operations apart, taken when a request finds no free block; 0: only
  /// when asked for. The last `samples` are kept.
  std::uint64_t sample_every = 0;
  std::size_t samples = 512;
  /// Whether the strategy may learn a stream's steps (Strategy::learns_steps).
  bool learn_steps = true;
  /// Asked in turn when memory is out, without any lock held; they may call the pool. True: try again.
  std::vector<std::function<bool(Bytes needed)>> give_back;
  /// Called last; true: somebody else's memory may have come free, try again.
  std::function<bool(Bytes needed)> wait_for_others;
  /// Who else holds what on the device, for the report; may be empty.
  std::function<std::string()> who_holds_what;
  /// Told of each allocation that fails for want of memory, without any lock held.
  std::function<void(const OutOfMemoryReport&)> on_out_of_memory;
};

/// What Pool::set_limit() changes; each as in PoolConfig, none where it is empty.
struct PoolLimits {
  std::optional<Bytes> limit;
  std::optional<double> limit_fraction;
  std::optional<Bytes> soft_limit;
};

/// So many streams can use one pool.
inline constexpr unsigned kMostStreams = 1024;

/// All sizes in bytes. `live` is what was asked for in whole grains; `requested` what was asked for.
struct PoolStatus {
  Bytes reserved;  ///< physical memory
  Bytes peak_reserved;
  Bytes live;
  /// Exact with one stream that one thread uses; with several, the sum of their peaks: an upper bound. What one thread
  /// gives back of what another allocated may count a little longer.
  Bytes peak_live;
  Bytes requested;
  Bytes cached;  ///< in quick lists, or given back on another stream and not yet taken over
  Bytes free;    ///< reserved, but neither live nor cached
  Bytes spare;   ///< the part of `free` that is mapped nowhere
  /// The largest free block that is not kept for a captured graph; nothing needs to be mapped for a request of that
  /// size, but one on another stream than the block's may have to wait for that stream.
  Bytes largest_free;
  Bytes limit;
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t quick_hits = 0;
  std::uint64_t upstream_calls = 0;
  std::uint64_t pages_created = 0;
  std::uint64_t pages_moved = 0;
  std::uint64_t out_of_memory = 0;
  std::uint64_t learned_steps = 0;       ///< how often a stream began to follow a step that it had learned
  std::uint64_t learned_operations = 0;  ///< done as planned, of `allocations` and `frees`
  Bytes metadata;                        ///< host memory that describes the blocks
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
/// fail with ErrorCode::unavailable, as its CUDA context does; those that return no Result tell of an empty pool.
class Pool {
 public:
  /// The upstream must outlive the pool.
  static Result<std::unique_ptr<Pool>> create(Upstream& upstream, PoolConfig config);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Gives everything back, live or not.
  ~Pool();

  /// Memory for work on `stream`, aligned to `alignment` (a power of two up to 2 MiB, at least 512 bytes are kept).
  /// invalid_argument: size 0, no such alignment; unsatisfied: out of memory, with a report; unavailable: the
  /// context is gone. After a failure everything is as before.
  Result<DeviceAddress> allocate(Bytes size, StreamId stream, Bytes alignment = kGrain);
  /// Gives memory back as of the work submitted to `stream` so far. There it is reused at once, elsewhere after that
  /// work. invalid_argument: given back twice, or never given out by this pool; nothing changes then.
  Result<void> deallocate(DeviceAddress address, StreamId stream);
  /// The same, after a check that `size` is what was asked for.
  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream);

  Result<BlockHandle> allocate_block(Bytes size, StreamId stream);
  Result<void> deallocate_block(BlockHandle block, StreamId stream);

  /// Work on `stream` uses the block, too, from now until it is given back: then it waits for that stream as well.
  /// invalid_argument: no live block of this pool starts there.
  Result<void> record_stream(DeviceAddress address, StreamId stream);

  /// Makes later work of `later` wait for all work submitted to `earlier` so far.
  Result<void> order(StreamId later, StreamId earlier);

  /// Call before a stream is captured into a graph: what it allocates from now on comes from memory of its own, which
  /// is neither moved nor shared, and there are no events on it. Nothing is unmapped and no event is asked for anywhere
  /// until the capture ends. What a graph uses must be allocated in its capture, or stay live as long as the graph.
  Result<CaptureId> begin_capture(StreamId stream);
  /// The same for another stream of the capture; or, once it has ended, for another graph that shares its memory and is
  /// never replayed at the same time.
  Result<void> join_capture(CaptureId id, StreamId stream);
  /// The capture is over; the memory stays kept for replays.
  Result<void> end_capture(CaptureId id);
  /// The graph is gone, or will not be replayed again; replays were submitted to `replayed_on`. What is free of its
  /// memory can be used by all once they are done. After an error it stays kept.
  Result<void> release_capture(CaptureId id, StreamId replayed_on);

  /// What was asked for when `address` was given out.
  Result<Bytes> size_of(DeviceAddress address);

  /// Gives idle memory back to the device until no more than `keep` is reserved; how much went.
  Result<Bytes> trim(Bytes keep = Bytes{});
  /// Gives back what the pool has not needed for `idle_for` before `now`, the longest unused first: what is reserved
  /// beyond the most that was live since (and 1/32 of that), but never below `keep`; and what idles above the soft
  /// limit. Knows only what happened between its calls: call it regularly, or have a Trimmer do so. Works in slices of
  /// 64 MiB; ends early when asked to stop. How much went; unavailable: the context is gone.
  Result<Bytes> trim_idle(Clock::SteadyTime now, std::chrono::nanoseconds idle_for, Bytes keep = Bytes{},
                          const std::stop_token& stop = {});
  /// Whole pages without a user that were last used before `time`, as far as trim_idle() has noted the time; a block
  /// that was merged with a younger one counts as young.
  Bytes idle_since(Clock::SteadyTime time);

  /// Fragmentation now, by size class; looks at every block.
  Fragmentation fragmentation();
  /// Takes a sample, which is kept as well.
  FragmentationSample sample_fragmentation(std::optional<Clock::SteadyTime> time = {});
  std::vector<FragmentationSample> fragmentation_history() const;

  /// Puts other limits in place of all that there were, while the pool is in use. Where more is reserved than `limit`
  /// (or the share) leaves, idle memory goes back to the device first; for that it waits for the streams' work if it
  /// has to, unless one is being captured. invalid_argument: a share that is none; unsatisfied: live memory, or pages
  /// that live blocks lie on, exceed the limit: the old limits stay; unavailable: the context is gone.
  Result<void> set_limit(const PoolLimits& limits);

  /// unavailable: this process was forked from the one that made the pool.
  Result<void> check_process() const;
  /// All zeros in a forked process.
  PoolStatus status();
  /// Runs of addresses that have memory, as layout() lists them; takes time in the number of pages.
  std::uint64_t segments();
  /// Every block that has memory. Takes time and memory in their number.
  std::vector<SegmentLayout> layout();
  /// Whether every block, list and counter agrees with every other; the first that does not.
  Result<void> check();

  class Core;

 private:
  friend class MovableMemory;
  explicit Pool(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace gpuwarden::memory
