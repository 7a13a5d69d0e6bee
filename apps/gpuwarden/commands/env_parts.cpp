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

using knowledge::Knowledge;

/// The architectures that --for names; "native": of all GPUs that are there.
Result<std::vector<int>> architectures_for(const std::string& text, const facts::Snapshot& snapshot,
                                           const Knowledge& knowledge) {
  if (text != "native") {
    GPUWARDEN_TRY(const int one, toolkits::parse_architecture(text, knowledge));
    return std::vector{one};
  }
  std::vector<int> architectures;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const auto& capability = record.gpu.compute_capability;
    const auto architecture =
        capability ? capability->major * 10 + capability->minor : knowledge.architecture_of_name(record.gpu.name);
    if (record.gpu.vendor == "NVIDIA" && architecture) architectures.push_back(*architecture);
  }
  if (architectures.empty())
    return fail(ErrorCode::unsatisfied, "--for native: there is no NVIDIA GPU here whose architecture is known",
                "--for sm_89 names one");
  std::ranges::sort(architectures);
  const auto repeated = std::ranges::unique(architectures);
  architectures.erase(repeated.begin(), repeated.end());
  return architectures;
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

const facts::Environment& software_of(const facts::Snapshot& snapshot) {
  static const facts::Environment kNone;
  return snapshot.environment ? *snapshot.environment : kNone;
}

std::optional<knowledge::Version> driver_of(const facts::Snapshot& snapshot) {
  const auto& driver = software_of(snapshot).driver;
  // Libraries alone are no driver: a package of another program may bring them. An image has its module on disk.
  for (const auto& text : {snapshot.driver_version, driver.loaded_version, driver.on_disk_version}) {
    if (text) return knowledge::Version::parse(*text);
  }
  return std::nullopt;
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

Result<facts::Toolkit> take_toolkit(Context& context, const facts::Snapshot& snapshot) {
  const auto& toolkits = software_of(snapshot).toolkits;
  if (const auto wanted = context.args.text("for")) {
    GPUWARDEN_TRY(const Knowledge knowledge, open_knowledge(context));
    GPUWARDEN_TRY(const auto architectures, architectures_for(*wanted, snapshot, knowledge));
    GPUWARDEN_TRY(const auto choice, toolkits::choose_toolkit(toolkits, architectures, driver_of(snapshot), knowledge));
    fmt::print(stderr, "gpuwarden: {}\n", printable(choice.why));
    for (const std::string& other : choice.passed_over) fmt::print(stderr, "  not {}\n", printable(other));
    return *choice.toolkit;
  }
  if (context.args.rest.empty())
    return fail(ErrorCode::invalid_argument, "no CUDA version was given", "for example 12.4; gpuwarden env list");
  GPUWARDEN_TRY(const auto* found, toolkits::find_toolkit(toolkits, context.args.rest.front()));
  context.args.rest.erase(context.args.rest.begin());
  return *found;
}

}  // namespace gpuwarden::cli
