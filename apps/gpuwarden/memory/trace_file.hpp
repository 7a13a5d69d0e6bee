// SPDX-License-Identifier: Apache-2.0
// A trace from a file, packed or not, or from standard input.
#pragma once

#include <string>

#include "command.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::cli {

/// "-" is standard input; --device says whose events, of a snapshot that tells of several.
Result<memtrace::Trace> read_trace_file(const std::string& file, const Args& args);

}  // namespace gpuwarden::cli
