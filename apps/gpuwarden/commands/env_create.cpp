// SPDX-License-Identifier: Apache-2.0
// gpuwarden env create: a Python environment with a CUDA version.
#include <fmt/format.h>

#include "commands/env_parts.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/toolkits/python_environment.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

Result<int> env_create(Context& context) {
  if (context.args.rest.empty())
    return fail(ErrorCode::invalid_argument, "env create: no name was given", "gpuwarden env create NAME --cuda 12.4");
  GPUWARDEN_TRY(auto request, toolkits::read_python_environment(context.args.rest.front(), context.args));
  request.working_directory = survey_options(context).working_directory;
  GPUWARDEN_TRY(const auto snapshot, look_around(context, false));
  GPUWARDEN_TRY(const auto known, open_knowledge(context));
  GPUWARDEN_TRY(const auto plan,
                toolkits::plan_python_environment(request, context.environment, toolkits::driver_of(snapshot), known));
  for (const std::string& note : plan.notes) warn(printable(note));
  if (!context.args.has("yes")) {
    for (const auto& command : plan.commands) fmt::print("{}\n", shell_line(command));
    fmt::print("{}\n", plan.activation);
    say("hint: {}\n", plan.installed ? "--yes runs them"
                                     : fmt::format("{} is not installed here; {}", plan.program, instead_of(plan)));
    return kFine;
  }
  const auto run_in_sight = [&](const std::vector<std::string>& words) -> Result<int> {
    say("+ {}\n", printable(join(words, " ")));
    const auto code = launch::run_in_foreground(words, context.environment);
    return code ? *code : refuse_program(code.error());
  };
  GPUWARDEN_CHECK(toolkits::create_python_environment(plan, run_in_sight));
  fmt::print("{}\n", plan.activation);
  return kFine;
}

}  // namespace gpuwarden::cli
