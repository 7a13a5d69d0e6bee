// SPDX-License-Identifier: Apache-2.0
// What is left of runs whose launcher and guardians were all killed at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::launch {

/// A run that nobody supervises any more, and its processes that still run.
struct Leftover {
  std::string run_id;
  std::uint32_t user = 0;  ///< owner of the record and of the processes
  std::vector<Pid> processes;
  /// They are in a control group that was made for the run: nothing else can be among them.
  bool grouped = false;
  bool ended = false;  ///< by end_own_leftovers()
};

/// The runs that are noted down in `folder` (JobSpec::record_directory), whose supervisors are all gone (nobody holds
/// the record's lock) and of which something runs: what is in the run's control group, and processes of the record's
/// owner that carry its id or were started within its leases (lease::processes_on; shared ones do not tell).
/// Records of runs of which nothing is left are removed, where the caller may.
std::vector<Leftover> find_leftovers(const std::filesystem::path& folder);

/// find_leftovers(), of which what is in a control group of a run of the caller's own is ended at once.
std::vector<Leftover> end_own_leftovers(const std::filesystem::path& folder, Clock& clock);

/// Ends what is left of a run: SIGTERM, then SIGKILL. Gives the processes that were ended; fails with not_found where
/// nothing is left of such a run, with invalid_argument where it still runs, which names its launcher, with
/// permission_denied where it is another user's.
Result<std::vector<Pid>> end_leftover(const std::filesystem::path& folder, const std::string& run_id, Clock& clock);

}  // namespace gpuwarden::launch
