// SPDX-License-Identifier: Apache-2.0
// The process that waits for NVML's events, seen from inside. Its messages: {"watching": number of GPUs} once, then
// {"event": event} for each; {"problem": error} as the last where it cannot go on.
#pragma once

#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// Sends events until the socket closes or the driver fails.
void serve_events(int fd, const ReaderOptions& options);

}  // namespace gpuwarden::probe
