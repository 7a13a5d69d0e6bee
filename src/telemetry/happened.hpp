// SPDX-License-Identifier: Apache-2.0
// What happened in a reading, in words: rows of a store and of the monitor's log. Pure.
#pragma once

#include <vector>

#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/health.hpp"
#include "gpuwarden/telemetry/reading.hpp"
#include "gpuwarden/telemetry/store.hpp"

namespace gpuwarden::telemetry {

/// Events that mean something, and changes of alerts and of fitness (not of who uses a GPU).
std::vector<Happening> happenings_in(const Reading& reading, const std::vector<AlertChange>& alerts,
                                     const std::vector<HealthChange>& health);

}  // namespace gpuwarden::telemetry
