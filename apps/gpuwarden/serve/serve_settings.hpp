// SPDX-License-Identifier: Apache-2.0
// What the options of `gpuwarden serve` mean.
#pragma once

#include "command.hpp"
#include "gpuwarden/serve/run_daemon.hpp"

namespace gpuwarden::cli {

Result<serve::Dialect> read_dialect(const Args& args);
/// Without what opens the machine. Fails with invalid_argument naming the option, and as serve::check() does.
Result<serve::DaemonOptions> read_serve_settings(const Context& context);

}  // namespace gpuwarden::cli
