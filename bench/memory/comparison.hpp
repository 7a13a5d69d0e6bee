// SPDX-License-Identifier: Apache-2.0
// One trace through all contenders in interleaved rounds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memory/benchmarks.hpp"

namespace gpuwarden::bench {

struct Outcome {
  double nanoseconds = kNone;  ///< an operation; the best round
  Footprint footprint;
  std::uint64_t late_calls = 0;  ///< driver calls in the last third of the trace
  std::string error;             ///< empty: it completed
};

/// Plays the trace once on a device of its own.
Outcome play_once(const Contender& contender, const Trace& trace, const DeviceSpec& spec = {});

/// The best of `rounds` for each contender, in their order.
std::vector<Outcome> compare(const std::vector<Contender>& contenders, const Trace& trace, unsigned rounds);

/// Peak live bytes by peak reserved ones; kNone where nothing is reserved or the trace did not complete.
double share_live(const Trace& trace, const Outcome& outcome);

/// ns/op, its ratio to the fastest peer (yardsticks aside), reserved MiB, live/reserved, driver calls.
Table table_of(const Trace& trace, const std::vector<Contender>& contenders, const std::vector<Outcome>& outcomes);

/// The lowest ns/op among re-implementations and libraries; kNone without any.
double fastest_peer(const std::vector<Contender>& contenders, const std::vector<Outcome>& outcomes);

/// Where `name` stands in the list; contenders.size() if it does not take part.
std::size_t position(const std::vector<Contender>& contenders, std::string_view name);

}  // namespace gpuwarden::bench
