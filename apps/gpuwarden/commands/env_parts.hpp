// SPDX-License-Identifier: Apache-2.0
// The actions of gpuwarden env, and what they share.
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

/// A toolkit among those that are installed.
struct ChosenToolkit {
  facts::Toolkit toolkit;
  facts::Snapshot snapshot;
};
/// The toolkit of the first operand, or of --for (the reason then goes to stderr). Takes the operand away; fails where
/// another is left and `action` is to have no more.
Result<ChosenToolkit> take_toolkit(Context& context, std::string_view action);
/// Fails with invalid_argument for an operand that is left over.
Result<void> check_no_operand(const Context& context, std::string_view action);

// The actions: each gets the operands behind its name in context.args.rest.
Result<int> env_list(Context& context);
Result<int> env_use(Context& context);
Result<int> env_exec(Context& context);
Result<int> env_module(Context& context);
Result<int> env_persist(Context& context);
Result<int> env_check(Context& context);
Result<int> env_create(Context& context);
Result<int> env_explain(Context& context);
Result<int> env_generate(Context& context);

}  // namespace gpuwarden::cli
