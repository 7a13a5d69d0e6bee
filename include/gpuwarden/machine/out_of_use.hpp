// SPDX-License-Identifier: Apache-2.0
// Which GPUs are not to be given work, and where running monitors tell of those that they judge unfit.
#pragma once

#include <chrono>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/lease/health_notices.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::machine {

/// Beside what is disabled; a simulated fleet's in its own folder, so that it speaks of that fleet alone.
lease::HealthPlaces health_places(const Environment& environment, const probe::ReaderOptions& reader);

/// What people have disabled, and what running monitors judge unfit. Fails as lease::Disablings::read does.
Result<lease::Disablings::View> out_of_use(const Environment& environment, const probe::ReaderOptions& reader,
                                           std::chrono::system_clock::time_point now);

}  // namespace gpuwarden::machine
