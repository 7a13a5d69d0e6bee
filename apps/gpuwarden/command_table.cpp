// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "options.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

void add_options(std::string& text, std::span<const Option> options) {
  for (const Option& option : options) text += fmt::format("  {:<30} {}\n", synopsis_of(option), option.help);
}

constexpr auto kCommands = std::to_array<const Subcommand*>(
    {&kListCommand,     &kTopCommand,     &kServeCommand,      &kSelectCommand,   &kPlanCommand,
     &kSnapshotCommand, &kDoctorCommand,  &kBenchCommand,      &kDiagnoseCommand, &kDriverCommand,
     &kBundleCommand,   &kEnvCommand,     &kRunCommand,        &kRecordCommand,   &kReportCommand,
     &kLeaseCommand,    &kDisableCommand, &kEnableCommand,     &kCompatCommand,   &kMemoryCommand,
     &kSlurmCommand,    &kSimCommand,     &kCompletionCommand, &kManCommand,      &kHostAgentCommand});

constexpr auto kWithoutMachine = std::to_array<std::string_view>({"report", "completion", "man", "host-agent"});
constexpr auto kAboutTheMachine = std::to_array<std::string_view>({"simulate", "timeout", "probe", "wake"});

}  // namespace

std::vector<Option> common_options_of(const Subcommand& command) {
  std::vector<Option> options(kCommonOptions.begin(), kCommonOptions.end());
  if (std::ranges::find(kWithoutMachine, command.name) != kWithoutMachine.end())
    std::erase_if(options, [](const Option& option) {
      return std::ranges::find(kAboutTheMachine, key_of(option)) != kAboutTheMachine.end();
    });
  return options;
}

std::span<const Subcommand* const> commands() { return kCommands; }

const Subcommand* find_command(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kCommands, [&](const Subcommand* command) { return command->name == name; });
  return found == kCommands.end() ? nullptr : *found;
}

std::vector<Option> options_of(const Subcommand& command) {
  std::vector<Option> all = common_options_of(command);
  for (const OptionGroup& group : command.groups) all.insert(all.end(), group.options.begin(), group.options.end());
  return all;
}

std::string key_of(const Option& option) {
  const auto names = split(option.names, ',');
  return std::string(names.back().substr(names.back().find_first_not_of('-')));
}

std::string synopsis_of(const Option& option) {
  std::string names = option.names;
  std::ranges::replace(names, ',', ' ');
  if (option.kind == OptionKind::optional) return fmt::format("{}[={}]", names, option.value);
  return *option.value == '\0' ? names : fmt::format("{} {}", names, option.value);
}

namespace {

/// Fails for an option that was given and is not for this action.
Result<void> check_action_options(const Context& context, std::string_view action) {
  const std::string_view name = context.command->name;
  for (const Option& option : options_of(*context.command)) {
    const std::string key = key_of(option);
    if (*option.actions == '\0' || !context.args.has(key)) continue;
    const auto owners = split_words(option.actions);
    if (std::ranges::find(owners, action) != owners.end()) continue;
    return fail(ErrorCode::invalid_argument, fmt::format("{} {} takes no --{}", name, action, key),
                fmt::format("--{} is an option of gpuwarden {} {}", key, name, fmt::join(owners, " | ")));
  }
  return {};
}

/// What is said where the first operand is none of the command's actions; `typed` empty: it was left out.
Error unknown_action(const Context& context, const std::string& typed) {
  const Subcommand& command = *context.command;
  std::vector<std::string> names;
  for (const auto name : split_words(command.actions)) names.emplace_back(name);
  const std::string close = closest_match(typed, names);
  return {ErrorCode::invalid_argument,
          typed.empty() ? fmt::format("{} needs an action", command.name)
                        : fmt::format("unknown action '{}' for `gpuwarden {}`", printable(typed), command.name),
          close.empty() ? "one of " + join(names, ", ") : fmt::format("did you mean '{}'?", close)};
}

Result<void> check_answers(const Context& context, std::span<const Action> actions, const Action& action) {
  if (action.answers) return {};
  std::vector<std::string_view> others;
  for (const Action& one : actions) {
    if (one.answers) others.push_back(one.name);
  }
  return refuse_json(context.args, fmt::format("{} {}", context.command->name, action.name),
                     fmt::format("{} {} do", context.command->name, fmt::join(others, ", ")));
}

}  // namespace

Result<int> run_action(Context& context, std::span<const Action> actions, std::string_view usual) {
  auto& words = context.args.rest;
  const std::string typed = words.empty() ? std::string(usual) : words.front();
  const auto action = std::ranges::find(actions, typed, &Action::name);
  if (action == actions.end()) return std::unexpected(unknown_action(context, typed));
  if (!words.empty()) words.erase(words.begin());
  context.action = action->name;
  GPUWARDEN_CHECK(check_action_options(context, action->name));
  GPUWARDEN_CHECK(check_answers(context, actions, *action));
  if (words.size() <= action->operands) return action->run(context);
  const std::string_view command = context.command->name;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} {}: unexpected argument '{}'", command, action->name, printable(words[action->operands])),
              fmt::format("see gpuwarden {} --help", command));
}

std::string help_for(const Subcommand& command) {
  std::string text = fmt::format("gpuwarden {}: {}\n\nusage: {}\n", command.name, command.summary, command.usage);
  std::string_view section;
  for (const OptionGroup& group : command.groups) {
    if (group.options.empty()) continue;
    if (group.title != section) text += fmt::format("\n{}:\n", group.title);
    section = group.title;
    add_options(text, group.options);
  }
  text += "\ncommon options:\n";
  add_options(text, common_options_of(command));
  return text;
}

std::string overview() {
  std::string text =
      "gpuwarden knows the GPUs of a machine, chooses among them, and runs work on them.\n\n"
      "usage: gpuwarden COMMAND [options]\n\ncommands:\n";
  for (const Subcommand* command : kCommands) {
    if (!command->hidden) text += fmt::format("  {:<10} {}\n", command->name, command->summary);
  }
  text +=
      "  help       help for a command\n  version    print the version\n\n"
      "for shells and packagers: gpuwarden completion SHELL, gpuwarden man COMMAND\n"
      "No GPU here? gpuwarden list --simulate h100x8\n"
      "exit codes: 0 fine, 1 no (nothing fits, a GPU in trouble), 2 wrong usage, 3 driver unavailable; run: the job's "
      "own\n";
  return text;
}

void write_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

int complain(const Error& error) {
  std::fflush(stdout);
  say("gpuwarden: {}\n", error.message);
  if (!error.hint.empty()) say("hint: {}\n", error.hint);
  const int signal = error.code == ErrorCode::interrupted ? StopOnSignals::last_signal() : 0;
  return signal == 0 ? exit_code_of(error.code) : kSignalled + signal;
}

int refuse_program(const Error& error) {
  complain(error);
  return exit_code_of_start(error.code);
}

bool ask(std::string_view question) {
  say("{} [y/N] ", question);
  std::string line;
  return std::getline(std::cin, line) && (line == "y" || line == "yes");
}

std::string warning_line(std::string_view text) { return fmt::format("gpuwarden: warning: {}\n", text); }
void warn(std::string_view text) { write_stderr(warning_line(text)); }

}  // namespace gpuwarden::cli
