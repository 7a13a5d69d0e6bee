// SPDX-License-Identifier: Apache-2.0
// What replaying and recording found, as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/memtrace/replay.hpp"
#include "gpuwarden/memtrace/summary.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::memtrace {

struct ReplayReport {
  std::string file;
  const Trace& trace;
  Bytes device_memory;
  std::vector<unsigned> steps;  ///< the length of each, 0 where there is none
  std::vector<Replay> replays;  ///< one for each strategy; the first stands for all
};

/// As `gpuwarden memory replay --json` prints it.
nlohmann::json to_json(const ReplayReport& report);

/// What a command and its children wrote while they were traced, as `gpuwarden memory trace --json` prints it.
nlohmann::json to_json(const std::vector<TraceSummary>& traces, int exit_code);

}  // namespace gpuwarden::memtrace
