// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden driver` shows on a terminal.
#pragma once

#include <string>

#include "gpuwarden/driver/run.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

std::string status_text(const driver::DriverStatus& status, const Style& style);
std::string recommendation_text(const driver::Recommendation& target, const Style& style);
std::string plan_text(const driver::Plan& plan, const driver::DriverRequest& request, const Style& style);
std::string history_text(const std::vector<driver::DriverRun>& runs, const Style& style);

}  // namespace gpuwarden::cli
