// SPDX-License-Identifier: Apache-2.0
// What shells need to complete gpuwarden's command lines: made from the command table, so that no option is forgotten.
#pragma once

#include <string>

namespace gpuwarden::cli {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace gpuwarden::cli
