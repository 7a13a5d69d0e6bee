// SPDX-License-Identifier: Apache-2.0
// Machines whose driver is to be changed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::testing {

/// A day on which R580 is the long-term branch and R535 past its end.
std::chrono::system_clock::time_point autumn_2026();

facts::GpuRecord gpu(std::string_view name, std::uint32_t index = 0);
facts::Environment& software(driver::DriverFacts& facts);

/// Machines in order, where nobody is at work: every pre-check says yes.
driver::DriverFacts bare_machine(std::string_view distribution, std::string_view version,
                                 driver::PackageManager manager, std::string_view gpu_name = "NVIDIA H100 80GB HBM3");
/// Debian 12 with Debian's own R535, DKMS, gdm3, persistence daemon.
driver::DriverFacts debian_machine();
/// Ubuntu 22.04 with Ubuntu's R535 packages.
driver::DriverFacts ubuntu_machine();
/// NVSwitch and the fabric manager of the driver's version.
void add_fabric(driver::DriverFacts& facts);

std::vector<std::string> ids_of(const driver::Plan& plan);
const driver::Step* step_of(const driver::Plan& plan, std::string_view id);
/// Made on autumn_2026() with the built-in tables, and named "test".
Result<driver::Plan> plan_for(const driver::DriverFacts& facts, const driver::DriverRequest& request = {});
Result<driver::Recommendation> recommendation_for(const driver::DriverFacts& facts,
                                                  const driver::DriverRequest& request = {});

}  // namespace gpuwarden::testing
