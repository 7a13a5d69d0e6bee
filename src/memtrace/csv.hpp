// SPDX-License-Identifier: Apache-2.0
// Traces as tables.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memtrace/read.hpp"

namespace gpuwarden::memtrace {

/// Whether the first line is the heading of a CSV trace, or a heading or line of an RMM log.
bool is_allocation_csv(std::string_view data);
bool is_rmm_log(std::string_view data);

Result<Trace> read_allocation_csv(std::string_view data, const std::string& name, const ReadOptions& options);
Result<Trace> read_rmm_log(std::string_view data, const std::string& name, const ReadOptions& options);

}  // namespace gpuwarden::memtrace
