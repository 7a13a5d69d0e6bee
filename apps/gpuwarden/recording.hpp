// SPDX-License-Identifier: Apache-2.0
// What `record` and `run --record` share.
#pragma once

#include <memory>

#include "command.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/recording/recorder.hpp"

namespace gpuwarden::cli {

/// What a recording says about itself, for a command (empty: none) on these GPUs.
telemetry::StoreInfo recording_info(const facts::Snapshot& snapshot, const std::vector<std::string>& command,
                                    std::chrono::milliseconds interval);

/// For samplers: each reading goes to the recorder; what cannot be written is said once.
std::function<void(telemetry::Reading)> recording_into(recording::Recorder& recorder);

/// Says what a recorder could not write.
void say_losses(const recording::Recorder::Progress& progress);

}  // namespace gpuwarden::cli
