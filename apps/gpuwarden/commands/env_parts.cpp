// SPDX-License-Identifier: Apache-2.0
#include "commands/env_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/probe/survey.hpp"
#include "gpuwarden/toolkits/toolkits.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

namespace {

/// The architectures that --for names; "native": of all GPUs that are there.
Result<std::vector<int>> architectures_for(const std::string& text, const facts::Snapshot& snapshot,
                                           const knowledge::Knowledge& knowledge) {
  if (text != "native") {
    GPUWARDEN_TRY(const int one, toolkits::parse_architecture(text, knowledge));
    return std::vector{one};
  }
  auto architectures = toolkits::architectures_of(snapshot, knowledge);
  if (!architectures.empty()) return architectures;
  return fail(ErrorCode::unsatisfied, "--for native: there is no NVIDIA GPU here whose architecture is known",
              "--for sm_89 names one");
}

}  // namespace

Result<facts::Snapshot> look_around(Context& context, bool gpus) {
  const auto root = context.args.text("root");
  if (root && !std::filesystem::is_directory(*root))
    return fail(ErrorCode::invalid_argument, fmt::format("--root: '{}' is not a directory", printable(*root)));
  const bool elsewhere = root && *root != "/";
  const bool simulated = context.args.has("simulate") || context.environment.contains("GPUWARDEN_SIMULATE");
  facts::Snapshot snapshot;
  if (context.args.has("from") || simulated || (gpus && !elsewhere)) {
    GPUWARDEN_TRY(const Machine machine, open_machine(context));
    snapshot = machine.read({.detail = probe::Detail::basic, .links = gpus});
    if (machine.captured()) {
      if (snapshot.environment) return snapshot;
      return fail(ErrorCode::unsatisfied,
                  fmt::format("{} says nothing about the software around the GPUs", printable(machine.capture_name())),
                  "gpuwarden snapshot -o FILE, or PyTorch's collect_env, does");
    }
  }
  probe::SurveyRequest request{.root = root.value_or("/"), .variables = context.environment};
  std::error_code ignored;
  request.working_directory = std::filesystem::current_path(ignored);
  request.deadline = std::max(request.deadline, probe_deadline(context));
  snapshot.environment = probe::survey(request);
  return snapshot;
}

Result<toolkits::Shell> shell_of(const Context& context, bool at_start) {
  if (const auto wanted = context.args.text("shell")) {
    const auto shell = toolkits::shell_from(*wanted);
    if (shell) return *shell;
    return fail(ErrorCode::invalid_argument, fmt::format("--shell: unknown shell '{}'", printable(*wanted)),
                "bash, zsh, fish or sh");
  }
  // SHELL names the login shell; the one that evaluates the output is the parent, where that is a shell.
  const auto around = read_line(fmt::format("/proc/{}/comm", ::getppid()));
  const auto login = context.environment.find("SHELL");
  const auto parent = toolkits::shell_from(around.value_or(""));
  const auto own = login == context.environment.end() ? std::nullopt : toolkits::shell_from(login->second);
  const auto first = at_start ? own : parent;
  return first.value_or((at_start ? parent : own).value_or(toolkits::Shell::bash));
}

Result<ChosenToolkit> take_toolkit(Context& context, std::string_view action) {
  const auto wanted = context.args.text("for");
  ChosenToolkit chosen;
  GPUWARDEN_TRY(chosen.snapshot, look_around(context, wanted == "native"));
  const auto& toolkits = toolkits::software_of(chosen.snapshot).toolkits;
  auto& rest = context.args.rest;
  if (wanted) {
    GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
    GPUWARDEN_TRY(const auto architectures, architectures_for(*wanted, chosen.snapshot, knowledge));
    GPUWARDEN_TRY(const auto choice,
                  toolkits::choose_toolkit(toolkits, architectures, toolkits::driver_of(chosen.snapshot), knowledge));
    say("gpuwarden: {}\n", printable(choice.why));
    for (const std::string& other : choice.passed_over) say("  not {}\n", printable(other));
    chosen.toolkit = *choice.toolkit;
  } else if (rest.empty()) {
    return fail(ErrorCode::invalid_argument, "no CUDA version was given", "for example 12.4; gpuwarden env list");
  } else {
    GPUWARDEN_TRY(const auto* found, toolkits::find_toolkit(toolkits, rest.front()));
    chosen.toolkit = *found;
    rest.erase(rest.begin());
  }
  if (action != "exec") GPUWARDEN_CHECK(check_no_operand(context, action));
  return chosen;
}

Result<void> check_no_operand(const Context& context, std::string_view action) {
  if (context.args.rest.empty()) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("env {}: unexpected argument '{}'", action, printable(context.args.rest.front())),
              "see gpuwarden env --help");
}

}  // namespace gpuwarden::cli
