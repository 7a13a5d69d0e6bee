// SPDX-License-Identifier: Apache-2.0
// The actions of gpuwarden env, and what they share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/version.hpp"
#include "gpuwarden/toolkits/shell.hpp"

namespace gpuwarden::cli {

/// What `env` looks at: the software of this machine, of --root or of --from. The GPUs are read too where `gpus`.
Result<facts::Snapshot> look_around(Context& context, bool gpus);
/// The toolkits' part of it; what is not known is empty.
const facts::Environment& software_of(const facts::Snapshot& snapshot);
std::optional<knowledge::Version> driver_of(const facts::Snapshot& snapshot);

/// --shell, else the shell that runs this program, else SHELL; bash where none of them is known. With `at_start` the
/// user's login shell counts more than the one around.
Result<toolkits::Shell> shell_of(const Context& context, bool at_start = false);

/// The toolkit of the first operand, or of --for (the reason then goes to stderr). Takes the operand away.
Result<facts::Toolkit> take_toolkit(Context& context, const facts::Snapshot& snapshot);

// The actions: each gets the operands behind its name in context.args.rest.
int env_list(Context& context);
int env_use(Context& context);
int env_exec(Context& context);
int env_module(Context& context);
int env_persist(Context& context);
int env_check(Context& context);
int env_create(Context& context);
int env_explain(Context& context);
int env_generate(Context& context);

}  // namespace gpuwarden::cli
