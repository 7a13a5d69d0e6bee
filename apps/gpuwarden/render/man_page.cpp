// SPDX-License-Identifier: Apache-2.0
#include "render/man_page.hpp"

#include <fmt/format.h>

#include "common_options.hpp"
#include "gpuwarden/base/text.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

/// Text as roff takes it: no line begins with a control character, and a hyphen can be copied as one.
std::string roff_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += fmt::format("\\&{}", c);
    else
      result += c;
  }
  return result;
}

std::string heading(std::string_view name) {
  return fmt::format(".TH {} 1 \"\" \"gpuwarden {}\" \"gpuwarden manual\"\n", roff_text(name), GPUWARDEN_VERSION);
}

std::string name_section(std::string_view name, std::string_view summary) {
  return fmt::format(".SH NAME\n{} \\- {}\n", roff_text(name), roff_text(summary));
}

/// "-n, --num-gpus" in bold, what stands for the value in italics.
std::string option_entry(const Option& option) {
  std::string names;
  for (const auto name : split(option.names, ','))
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff_text(name));
  const std::string value = roff_text(option.value);
  if (option.kind == OptionKind::optional)
    names += fmt::format("[=\\fI{}\\fR]", value);
  else if (!value.empty())
    names += fmt::format(" \\fI{}\\fR", value);
  std::string text = fmt::format(".TP\n{}\n{}\n", names, roff_text(option.help));
  if (*option.actions != '\0') text += fmt::format(".br\nFor: {}.\n", roff_text(option.actions));
  if (*option.choices != '\0') text += fmt::format(".br\nValues: {}.\n", roff_text(option.choices));
  return text;
}

std::string options_section(std::string_view title, std::span<const Option> options) {
  std::string text = title.empty() ? "" : fmt::format(".SS {}\n", roff_text(title));
  for (const Option& option : options) text += option_entry(option);
  return text;
}

/// The summary, what there is to add to it, and the actions that a command has.
std::string sentence(const Subcommand& command) {
  std::string text = roff_text(command.summary) + ".";
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  if (*command.details != '\0') text += "\n" + roff_text(command.details);
  if (*command.actions != '\0') text += fmt::format("\nIts actions are: {}.", roff_text(command.actions));
  return text;
}

std::string synopsis_section(const Subcommand& command) {
  std::string text = ".SH SYNOPSIS\n.nf\n";
  for (const auto line : split(command.usage, '\n')) text += roff_text(trim(line)) + "\n";
  return text + ".fi\n";
}

constexpr std::string_view kExitCodes =
    ".SH EXIT STATUS\n"
    ".TP\n0\nFine.\n"
    ".TP\n1\nThe answer is no: nothing fits, a GPU is in trouble, a wait timed out.\n"
    ".TP\n2\nWrong usage or bad input.\n"
    ".TP\n3\nThe driver or its library is missing, does not answer or does not permit it.\n";

constexpr std::string_view kRunCodes =
    ".PP\nA command that was run passes on its own code; 127: not found, 126: not executable.\n";

constexpr std::string_view kEnvironment =
    ".SH ENVIRONMENT\n"
    ".TP\nGPUWARDEN_SIMULATE\nA simulated fleet, as \\fB\\-\\-simulate\\fR names it.\n"
    ".TP\nGPUWARDEN_LEASE_DIR\nThe folder of the leases (/run/lock/gpuwarden).\n"
    ".TP\nGPUWARDEN_KNOWLEDGE_PATH\nFolders with YAML to lay over the knowledge base, colons between.\n"
    ".TP\nNO_COLOR\nSet: no colours.\n";

}  // namespace

std::string program_man_page() {
  std::string text = heading("GPUWARDEN") + name_section("gpuwarden", "know, judge, choose, run and watch GPUs");
  text +=
      ".SH SYNOPSIS\n.B gpuwarden\n.I COMMAND\n[\\fIoptions\\fR]\n.SH DESCRIPTION\n"
      "gpuwarden knows the GPUs of a machine, chooses among them, and runs work on them.\n"
      "Each command has a page of its own: gpuwarden\\-list(1) and so on.\n"
      "Where there is no GPU, \\fB\\-\\-simulate h100x8\\fR shows one.\n.SH COMMANDS\n";
  for (const Subcommand* command : commands()) {
    if (!command->hidden)
      text += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", roff_text(command->name), roff_text(command->summary));
  }
  text += ".TP\n\\fBhelp\\fR\nhelp for a command.\n.TP\n\\fBversion\\fR\nprint the version.\n.SH OPTIONS\n";
  text += options_section("common options", kCommonOptions);
  return text + std::string(kExitCodes) + std::string(kEnvironment);
}

std::string command_man_page(const Subcommand& command) {
  const std::string name = fmt::format("gpuwarden-{}", command.name);
  std::string text = heading(fmt::format("GPUWARDEN-{}", command.name)) + name_section(name, command.summary);
  text += synopsis_section(command);
  text += fmt::format(".SH DESCRIPTION\n{}\n", sentence(command));
  text += ".SH OPTIONS\n";
  std::string_view title;
  for (const OptionGroup& group : command.groups) {
    if (group.options.empty()) continue;
    text += options_section(group.title == title ? "" : group.title, group.options);
    title = group.title;
  }
  text += options_section("common options", common_options_of(command));
  text += kExitCodes;
  if (command.rest == Rest::command) text += kRunCodes;
  return text + std::string(kEnvironment) + ".SH SEE ALSO\n.BR gpuwarden (1)\n";
}

}  // namespace gpuwarden::cli
