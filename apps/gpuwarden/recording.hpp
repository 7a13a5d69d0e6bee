// SPDX-License-Identifier: Apache-2.0
// What `record` and `run --record` share.
#pragma once

#include <functional>

#include "command.hpp"
#include "gpuwarden/recording/recorder.hpp"

namespace gpuwarden::cli {

/// For samplers: each reading goes to the recorder; what cannot be written is said once.
std::function<void(telemetry::Reading)> recording_into(recording::Recorder& recorder);

/// Says what a recorder could not write.
void say_losses(const recording::Recorder::Progress& progress);

}  // namespace gpuwarden::cli
