// SPDX-License-Identifier: Apache-2.0
// The program nvidia-smi as a probe.
#pragma once

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// Runs `nvidia-smi -q -x` and reads what it prints. A GPU's processes get their names from /proc where that knows
/// them. Fails with the kinds no_library (no such program), timed_out, or what it says.
std::expected<facts::Snapshot, facts::DriverProblem> read_with_nvidia_smi(const ReaderOptions& options,
                                                                          const ReadRequest& request);

}  // namespace gpuwarden::probe
