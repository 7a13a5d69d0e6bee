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

#include "gpuwarden/memory/budget.hpp"
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
  /// Asked in turn when memory is out, without any lock held; they may call the pool. True: try again.
  std::vector<std::function<bool(Bytes needed)>> give_back;
  /// Called last; true: somebody else's memory may have come free, try again.
  std::function<bool(Bytes needed)> wait_for_others;
  /// Who else holds what on the device, for the report; may be empty.
  std::function<std::string()> who_holds_what;
  /// Told of each allocation that fails for want of memory, without any lock held.
  std::function<void(const OutOfMemoryReport&)> on_out_of_memory;
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

/// A block that is given back without a look-up. Empty: address 0.
struct BlockHandle {
  DeviceAddress address;
  std::uint32_t region = 0;
  std::uint32_t block = 0;
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
  Result<void> deallocate_block(const BlockHandle& block, StreamId stream);

  /// Work on `stream` uses the block, too, from now until it is given back: then it waits for that stream as well.
  /// invalid_argument: no live block of this pool starts there.
  Result<void> record_stream(DeviceAddress address, StreamId stream);

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
  Result<DeviceAddress> allocate_slow(Bytes size, StreamId stream, Bytes alignment);
  std::unique_ptr<Core> core_;
};

}  // namespace gpuwarden::memory
