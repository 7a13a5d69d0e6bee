// SPDX-License-Identifier: Apache-2.0
// NVIDIA's GPUs listed where nobody answers for them.
#pragma once

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// A snapshot with what no driver is needed for: host, time, the loaded kernel module's version.
facts::Snapshot begin_snapshot(const ReaderOptions& options);

/// Lists the GPUs as the kernel shows them, all in `state`, with the problem as their cause; where the state is
/// disabled the cause says what serves each instead.
void list_from_sys(const ReaderOptions& options, facts::DriverProblem problem, facts::Snapshot& snapshot);

}  // namespace gpuwarden::probe
