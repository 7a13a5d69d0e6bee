// SPDX-License-Identifier: Apache-2.0
// What gpuwarden memory replay found, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/memtrace/replay.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::cli {

struct ReplayReport {
  std::string file;
  const memtrace::Trace& trace;
  Bytes device_memory;
  std::vector<unsigned> steps;            ///< the length of each, 0 where there is none
  std::vector<memtrace::Replay> replays;  ///< one for each strategy; the first stands for all
};

std::string replay_json(const ReplayReport& report);

}  // namespace gpuwarden::cli
