// SPDX-License-Identifier: Apache-2.0
// The driver room's values as JSON (docs/json.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "gpuwarden/driver/run.hpp"

namespace gpuwarden::driver {

nlohmann::json to_json(const Recommendation& target);
nlohmann::json to_json(const DriverStatus& status);
/// The plan as the journal keeps it too.
nlohmann::json to_json(const Plan& plan);
/// A run with the state of each step, without the steps' texts.
nlohmann::json to_json(const DriverRun& run);
/// As `gpuwarden driver history --json` prints them.
nlohmann::json history_to_json(std::span<const DriverRun> runs);

}  // namespace gpuwarden::driver
