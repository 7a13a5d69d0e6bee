// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden driver` shows on a terminal.
#pragma once

#include <string>

#include "gpuwarden/setup/driver_run.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

std::string status_text(const setup::DriverStatus& status, const Style& style);
std::string recommendation_text(const setup::Recommendation& target, const Style& style);
std::string plan_text(const setup::Plan& plan, const setup::DriverRequest& request, const Style& style);
std::string history_text(const std::vector<setup::DriverRun>& runs, const Style& style);

}  // namespace gpuwarden::cli
