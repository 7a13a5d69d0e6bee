// SPDX-License-Identifier: Apache-2.0
// A trace made ready to be run as often as one likes: operations on numbered slots, and what they take at most.
#pragma once

#include <span>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::memtrace {

/// Small, because the loop over them is timed.
struct Operation {
  std::uint64_t size = 0;  ///< bytes to allocate; 0: a free
  std::uint32_t slot = 0;
  std::uint32_t stream = 0;  ///< position in Trace::streams; the pool's stream id
};

/// The first step allocates what was live before, then runs the events. Each later step first frees what the one before
/// left behind and allocates again what that freed of the blocks live before, as the next step of a training would
/// find it; then it runs the events.
struct Script {
  std::vector<std::vector<Operation>> parts;
  std::vector<std::uint32_t> order;  ///< which part each step is
  /// The same when it all has been run before: the first step is a later one, too.
  std::vector<std::uint32_t> again;
  std::uint32_t slots = 0;
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
  std::uint64_t peak_operation = 0;  ///< the first after which most is live
  Bytes peak_live;                   ///< in grains of 512 bytes, as pools give memory out
  Bytes peak_requested;              ///< as asked for
};

/// One step for each length (tokens); without a trace that depends on tokens, only their number counts. Not empty.
Script make_script(const Trace& trace, std::span<const unsigned> lengths);

/// invalid_argument: it is on more streams than a pool serves.
Result<void> check_streams(const Script& script);

/// `count` lengths, drawn evenly from [least, most]; the same for the same seed.
std::vector<unsigned> random_lengths(unsigned least, unsigned most, unsigned count, unsigned seed);

}  // namespace gpuwarden::memtrace
