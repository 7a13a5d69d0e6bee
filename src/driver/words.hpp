// SPDX-License-Identifier: Apache-2.0
// Names and small questions that the driver's files share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/driver/driver.hpp"
#include "gpuwarden/driver/run.hpp"

namespace gpuwarden::driver {

std::optional<StepState> step_state_from(std::string_view name);
std::optional<RunState> run_state_from(std::string_view name);
/// "open module".
std::string_view words_of(facts::ModuleFlavour flavour);

/// The software facts; an empty value where none were gathered.
const facts::Environment& environment_of(const DriverFacts& facts);
/// The driver that is there: loaded, else on disk, else as a capture says.
std::optional<std::string> present_version(const DriverFacts& facts);
/// Branch that the distribution's own archive has, 0 where it has none or several.
int distribution_branch(const facts::Host& host);

}  // namespace gpuwarden::driver
