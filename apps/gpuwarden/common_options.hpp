// SPDX-License-Identifier: Apache-2.0
// Which of the options that every command has mean something to one.
#pragma once

#include <vector>

#include "command.hpp"

namespace gpuwarden::cli {

/// All of kCommonOptions; of commands that look at no machine those alone that do not say how to look at one.
std::vector<Option> common_options_of(const Subcommand& command);

}  // namespace gpuwarden::cli
