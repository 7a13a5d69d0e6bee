// SPDX-License-Identifier: Apache-2.0
#include "commands/env_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "gpuwarden/base/file.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

Result<facts::Snapshot> look_around(Context& context, bool gpus) {
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  return machine.survey_software(survey_options(context), gpus);
}

Result<toolkits::Shell> shell_of(const Context& context, bool at_start) {
  GPUWARDEN_TRY(const auto named,
                choice_option(context.args, "shell", toolkits::shell_from, "shell", "bash, zsh, fish or sh"));
  if (named) return *named;
  const auto around = read_line(fmt::format("/proc/{}/comm", ::getppid()));
  return toolkits::likely_shell(around.value_or(""), context.environment, at_start);
}

}  // namespace gpuwarden::cli
