// SPDX-License-Identifier: Apache-2.0
// Runs a trace through a pool over a device that only counts: what it costs in time is the allocator's own work, what
// it reserves is what a GPU would have to give.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "gpuwarden/memtrace/script.hpp"

namespace gpuwarden::memtrace {

struct ReplayOptions {
  /// nullptr: the default strategy.
  const memory::Strategy* strategy = nullptr;
  Bytes device_memory = 80_GiB;
  /// So many pools are timed: while they run the script for the first time, and when they have run it three times (a
  /// long one: once). Of each the best counts.
  unsigned rounds = 5;
  /// More rounds follow as long as they have not taken so many milliseconds together.
  unsigned timed_ms = 100;
  /// How many samples of the pool are taken, evenly over the operations.
  unsigned samples = 240;
};

/// A pool after an operation.
struct ReplaySample {
  std::uint64_t operation = 0;  ///< how many were run
  Bytes live;
  Bytes reserved;
  Bytes free;          ///< reserved, but not live
  Bytes largest_free;  ///< the largest free block
};

struct ReplayFailure {
  std::uint64_t operation = 0;
  Bytes size;
  Error error;
};

struct Replay {
  std::string strategy;
  std::uint64_t operations = 0;
  /// The thread's time for an operation, when the pool has run the script before; empty: that did not fit.
  std::optional<double> nanoseconds;
  std::optional<double> first_nanoseconds;  ///< the same of a new pool, with its taking of pages
  unsigned rounds = 0;                      ///< pools that were timed; 0: memory ran out the first time
  Bytes peak_live;                          ///< in grains of 512 bytes
  Bytes peak_requested;
  Bytes peak_reserved;
  std::uint64_t driver_calls = 0;
  std::uint64_t driver_calls_last_step = 0;
  memory::PoolStatus at_peak;  ///< when most was live
  memory::PoolStatus at_end;
  std::vector<ReplaySample> samples;
  /// The request that memory ran out for; the figures are those until then.
  std::optional<ReplayFailure> failure;

  double utilization() const { return peak_reserved.value == 0 ? 1 : ratio(peak_live, peak_reserved); }
};

/// As memory::external_fragmentation.
double external_fragmentation(const memory::PoolStatus& status);
/// How much of what is live was not asked for: 1 - requested / live.
double internal_fragmentation(const memory::PoolStatus& status);

/// invalid_argument: no pool can be made on such a device, or the script is on more streams than one serves. Running
/// out of memory, or a request that is larger than the device, is no error, but a finding.
Result<Replay> replay(const Script& script, const ReplayOptions& options);

}  // namespace gpuwarden::memtrace
