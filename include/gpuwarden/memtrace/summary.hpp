// SPDX-License-Identifier: Apache-2.0
// A recorded trace in a few numbers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::memtrace {

struct TraceSummary {
  std::filesystem::path file;
  std::string problem;  ///< why the file could not be read; the numbers are 0 then
  std::size_t allocations = 0;
  std::size_t frees = 0;
  Bytes peak;    ///< the most that was live, as it was asked for
  Bytes at_end;  ///< live when the recording ended
};

TraceSummary summarize(const Trace& trace, std::filesystem::path file);

/// Reads the file for it (at most 16 GiB).
TraceSummary summarize(const std::filesystem::path& file);

}  // namespace gpuwarden::memtrace
