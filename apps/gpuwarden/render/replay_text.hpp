// SPDX-License-Identifier: Apache-2.0
// What gpuwarden memory replay prints: a row for each strategy, and a chart of memory over time.
#pragma once

#include <string>

#include "gpuwarden/memtrace/json.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

std::string replay_text(const memtrace::ReplayReport& report, const Style& style);

}  // namespace gpuwarden::cli
