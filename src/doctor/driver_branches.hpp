// SPDX-License-Identifier: Apache-2.0
// Checks of the driver's branch: against the GPUs' first and last, and its life cycle.
#pragma once

#include "gpuwarden/doctor/doctor.hpp"

namespace gpuwarden::doctor {

void driver_too_old_for_gpu(const Subject& subject, Report& report);
void driver_dropped_gpu(const Subject& subject, Report& report);
void driver_at_its_end(const Subject& subject, Report& report);
void driver_newer_than_known(const Subject& subject, Report& report);

}  // namespace gpuwarden::doctor
