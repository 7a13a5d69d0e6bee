// SPDX-License-Identifier: Apache-2.0
#include "commands/env_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/probe/survey.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

Result<facts::Snapshot> look_around(Context& context, bool gpus) {
  const machine::SurveyOptions options = survey_options(context);
  if (!std::filesystem::is_directory(options.root))
    return fail(ErrorCode::invalid_argument,
                fmt::format("--root: '{}' is not a directory", printable(options.root.string())));
  const bool simulated = context.args.has("simulate") || context.environment.contains("GPUWARDEN_SIMULATE");
  facts::Snapshot snapshot;
  if (context.args.has("from") || simulated || (gpus && options.root == "/")) {
    GPUWARDEN_TRY(const Machine machine, open_machine(context));
    snapshot = machine.read({.detail = probe::Detail::basic, .links = gpus});
    if (machine.captured()) {
      if (snapshot.environment) return snapshot;
      return fail(ErrorCode::unsatisfied,
                  fmt::format("{} says nothing about the software around the GPUs", printable(machine.capture_name())),
                  "gpuwarden snapshot -o FILE, or PyTorch's collect_env, does");
    }
  }
  probe::SurveyRequest request{.root = options.root, .variables = context.environment};
  request.working_directory = options.working_directory;
  request.deadline = std::max(request.deadline, options.deadline);
  snapshot.environment = probe::survey(request);
  return snapshot;
}

Result<toolkits::Shell> shell_of(const Context& context, bool at_start) {
  GPUWARDEN_TRY(const auto named,
                choice_option(context.args, "shell", toolkits::shell_from, "shell", "bash, zsh, fish or sh"));
  if (named) return *named;
  const auto around = read_line(fmt::format("/proc/{}/comm", ::getppid()));
  return toolkits::likely_shell(around.value_or(""), context.environment, at_start);
}

}  // namespace gpuwarden::cli
