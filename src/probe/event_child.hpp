// SPDX-License-Identifier: Apache-2.0
// The process that waits for NVML's events, seen from inside. Its messages: {"watching": number of GPUs} once, then
// {"event": event} for each; {"problem": error} as the last where it cannot go on.
#pragma once

#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// Sends events of these GPUs (none named: of all) until the socket closes or the driver fails.
void serve_events(int fd, const ReaderOptions& options, const std::vector<Uuid>& only);

}  // namespace gpuwarden::probe
