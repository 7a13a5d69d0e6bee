// SPDX-License-Identifier: Apache-2.0
// A trace run through the pool by several strategies, side by side.
//
//     auto steps = steps_of(trace, {.repeat = 3});
//     auto report = replay_all("trace.csv", trace, *steps, *memory::strategies_named("all"), 80_GiB);
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memory/strategy.hpp"
#include "gpuwarden/memtrace/record.hpp"
#include "gpuwarden/memtrace/replay.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::memtrace {

struct ReplayReport {
  std::string file;
  const Trace& trace;
  Bytes device_memory;
  std::vector<unsigned> steps;  ///< the length of each, 0 where there is none
  std::vector<Replay> replays;  ///< one for each strategy; the first stands for all
};

/// The trace over these steps by each of the strategies, which are at least one, on a simulated device that only
/// counts. Short scripts are timed in more rounds than long ones, at most five. Fails as replay() does. The report
/// refers to `trace`.
Result<ReplayReport> replay_all(std::string file, const Trace& trace, std::vector<unsigned> steps,
                                const std::vector<const memory::Strategy*>& strategies, Bytes device_memory);

/// The report's first replay once more, with everything that happens noted down. Fails as record() does.
Result<Recording> record_first(const ReplayReport& report);

/// What was read and run, a sentence each; the last one says on what device.
std::vector<std::string> notes_on(const ReplayReport& report);

}  // namespace gpuwarden::memtrace
