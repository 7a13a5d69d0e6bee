// SPDX-License-Identifier: Apache-2.0
// Man pages, made from the command table.
#pragma once

#include <string>

#include "command.hpp"

namespace gpuwarden::cli {

/// gpuwarden(1): the program and its commands, in the macros of man(7).
std::string program_man_page();
/// gpuwarden-list(1) and so on.
std::string command_man_page(const Subcommand& command);

}  // namespace gpuwarden::cli
