// SPDX-License-Identifier: Apache-2.0
#include "recording.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {

std::function<void(telemetry::Reading)> recording_into(recording::Recorder& recorder) {
  return [&recorder, told = false](telemetry::Reading reading) mutable {
    recorder.add(std::move(reading));
    const auto progress = recorder.progress();
    if (progress.trouble && !told) warn(progress.trouble->message);
    told = told || progress.trouble.has_value();
  };
}

void say_losses(const recording::Recorder::Progress& progress) {
  if (progress.lost == 0) return;
  warn(fmt::format("{} of {} readings could not be written: {}", progress.lost, progress.readings,
                   progress.trouble ? progress.trouble->message : "unknown error"));
}

}  // namespace gpuwarden::cli
