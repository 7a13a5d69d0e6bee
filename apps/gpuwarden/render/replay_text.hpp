// SPDX-License-Identifier: Apache-2.0
// What gpuwarden memory replay prints: a row for each strategy, and a chart of memory over time.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/memtrace/json.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

std::string replay_text(const memtrace::ReplayReport& report, const Style& style);

/// What was read and run, in sentences.
std::vector<std::string> replay_notes(const memtrace::ReplayReport& report);

/// Live and reserved memory over the operations: "#" live, "+" reserved beyond that.
std::string memory_chart(const memtrace::Replay& replay, const Style& style);

}  // namespace gpuwarden::cli
