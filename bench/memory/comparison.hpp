// SPDX-License-Identifier: Apache-2.0
// One trace through all contenders in interleaved rounds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memory/benchmarks.hpp"

namespace gpuwarden::bench {

struct Outcome {
  double nanoseconds = kNone;        ///< an operation; the best pass of the best round
  double first_nanoseconds = kNone;  ///< the same of first passes only, on a fresh pool
  double late_nanoseconds = kNone;   ///< the same of passes' last thirds only
  Footprint footprint;
  std::uint64_t late_calls = 0;     ///< driver calls in the last third of the first pass
  double settled_calls = kNone;     ///< driver calls in 1,000 operations after the first third of the first pass
  double call_nanoseconds = kNone;  ///< what all driver calls cost at their published prices, an operation
  std::string error;                ///< empty: it completed
};

/// What is played on one pool: `count` times one of the traces, in turn. What a pass leaves is given back before the
/// next one, untimed.
struct Passes {
  std::span<const Trace> traces;
  unsigned count = 1;
};

/// Plays them on a device of its own.
Outcome play_once(const Contender& contender, const Passes& passes, const DeviceSpec& spec = {});
/// One trace, once.
inline Outcome play_once(const Contender& contender, const Trace& trace, const DeviceSpec& spec = {}) {
  return play_once(contender, Passes{std::span(&trace, 1)}, spec);
}

/// The best of `rounds` for each contender, in their order.
std::vector<Outcome> compare(const std::vector<Contender>& contenders, const Passes& passes, unsigned rounds);

/// Peak live bytes by peak reserved ones; kNone where nothing is reserved or the trace did not complete.
double share_live(const Trace& trace, const Outcome& outcome);

/// Nanoseconds an operation with its driver calls at their published prices; kNone where it makes none that count.
double priced(const Contender& contender, const Outcome& outcome);

/// The lowest of priced() among peers whose live/reserved is at most 3 % below the best of all; kNone without any.
double lowest_priced_peer(const Trace& trace, const std::vector<Contender>& contenders,
                          const std::vector<Outcome>& outcomes);

/// ns/op, its ratio to the fastest peer (yardsticks aside), reserved MiB, live/reserved, driver calls.
Table table_of(const Trace& trace, const std::vector<Contender>& contenders, const std::vector<Outcome>& outcomes);

/// Which peers one is held against: those that find a block by its address as cudaFree does, or also those to whom a
/// handle is given back.
enum class Interface : std::uint8_t { address, any };

/// The lowest ns/op among re-implementations and libraries, of whole passes or of what `time` names; kNone without any.
double fastest_peer(const std::vector<Contender>& contenders, const std::vector<Outcome>& outcomes, Interface interface,
                    double Outcome::* time = &Outcome::nanoseconds);

/// Where `name` stands in the list; contenders.size() if it does not take part.
std::size_t position(const std::vector<Contender>& contenders, std::string_view name);

}  // namespace gpuwarden::bench
