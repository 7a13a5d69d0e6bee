// SPDX-License-Identifier: Apache-2.0
// What the actions of gpuwarden env share, and those that have a file of their own.
#pragma once

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/toolkits/listing.hpp"
#include "gpuwarden/toolkits/shell.hpp"

namespace gpuwarden::cli {

/// What `env` looks at: the software of this machine, of --root or of --from. The GPUs are read too where `gpus`.
Result<facts::Snapshot> look_around(Context& context, bool gpus);

/// --shell, else the shell that runs this program, else SHELL; bash where none of them is known. With `at_start` the
/// user's login shell counts more than the one around.
Result<toolkits::Shell> shell_of(const Context& context, bool at_start = false);

Result<int> env_create(Context& context);
Result<int> env_explain(Context& context);
Result<int> env_generate(Context& context);

}  // namespace gpuwarden::cli
