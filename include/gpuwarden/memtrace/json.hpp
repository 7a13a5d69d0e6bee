// SPDX-License-Identifier: Apache-2.0
// What replaying and recording found, as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "gpuwarden/memtrace/report.hpp"
#include "gpuwarden/memtrace/summary.hpp"

namespace gpuwarden::memtrace {

/// As `gpuwarden memory replay --json` prints it.
nlohmann::json to_json(const ReplayReport& report);

/// What a command and its children wrote while they were traced, as `gpuwarden memory trace --json` prints it.
nlohmann::json to_json(const std::vector<TraceSummary>& traces, int exit_code, bool simulated);

}  // namespace gpuwarden::memtrace
