// SPDX-License-Identifier: Apache-2.0
// What is kept of a job's GPUs while it runs, as a recording.
#pragma once

#include <chrono>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "gpuwarden/recording/recorder.hpp"

namespace gpuwarden::launch {

/// A recording of these GPUs alone, an instance standing for its GPU, read every `interval`; the file is the caller's
/// to name. Fails as placement::keep_named() where the reservation's own snapshot does not have them.
Result<recording::RecorderOptions> recorder_options(const machine::Reservation& gpus, const JobSpec& job,
                                                    std::chrono::milliseconds interval);

}  // namespace gpuwarden::launch
