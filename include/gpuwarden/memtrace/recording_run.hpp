// SPDX-License-Identifier: Apache-2.0
// A foreign program's allocations of GPU memory, noted down by the library that is put before it (preload/): what its
// environment needs, and what it and its children leave behind.
#pragma once

#include <filesystem>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/memtrace/summary.hpp"

namespace gpuwarden::memtrace {

/// The variable that is to hold the pid of the program itself, whose trace gets the name that was asked for.
inline constexpr const char* kTracedPidVariable = "GPUWARDEN_MEMTRACE_PID";

/// The library: GPUWARDEN_MEMTRACE_LIBRARY of `environment`, else ../lib/gpuwarden beside the running program. Fails
/// with unavailable where it is not there.
Result<std::filesystem::path> preload_library(const Environment& environment);

/// The environment with the library before all others; traces go to files that begin like `part`.
Environment traced_environment(Environment environment, const std::filesystem::path& library,
                               const std::filesystem::path& part);

/// What a run of a foreign program under the library needs.
struct TracedRun {
  std::filesystem::path wanted;  ///< the program's own trace, absolute
  std::filesystem::path part;    ///< how the files begin until collect_traces() names them
  Environment environment;       ///< of the program
};

/// Fails as preload_library() does, and where no file can be written beside `wanted`.
Result<TracedRun> prepare_traced_run(const std::filesystem::path& wanted, Environment environment);

/// Gives the files their names: the program's own gets `wanted`, other processes' have their pid behind it. If only
/// one process has written, it gets the name, too. Sums each up; none: no allocation was seen.
std::vector<TraceSummary> collect_traces(const std::filesystem::path& part, const std::filesystem::path& wanted);

}  // namespace gpuwarden::memtrace
