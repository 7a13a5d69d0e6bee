// SPDX-License-Identifier: Apache-2.0
// `gpuwarden serve --print`: files for those who scrape it.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

/// What --print names, to standard output: alert rules, a dashboard, or what scrapes this machine or those of --peers.
Result<int> print_file(const Context& context);

}  // namespace gpuwarden::cli
