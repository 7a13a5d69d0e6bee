// SPDX-License-Identifier: Apache-2.0
#include "render/man_page.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "render/from_template.hpp"
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

constexpr std::string_view kRunCodes =
    ".PP\nA command that was run passes on its own code; 127: not found, 126: not executable.\n";

/// The summary, what there is to add to it, and the actions that a command has.
std::string sentence(const Subcommand& command) {
  std::string text = roff_text(command.summary) + ".";
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  if (*command.details != '\0') text += "\n" + roff_text(command.details);
  if (*command.actions != '\0') text += fmt::format("\nIts actions are: {}.", roff_text(command.actions));
  return text;
}

std::string end_of_page(std::string_view codes) {
  return from_template("end.man", {{"CODES_OF_COMMAND", std::string(codes)}});
}

}  // namespace

std::string program_man_page() {
  std::string names;
  for (const Subcommand* command : commands()) {
    if (!command->hidden)
      names += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", roff_text(command->name), roff_text(command->summary));
  }
  return from_template("program.man", {{"VERSION", GPUWARDEN_VERSION},
                                       {"COMMANDS", names},
                                       {"OPTIONS", options_section("common options", kCommonOptions)},
                                       {"END", end_of_page("")}});
}

std::string command_man_page(const Subcommand& command) {
  std::string usage;
  for (const auto line : split(command.usage, '\n')) usage += roff_text(trim(line)) + "\n";
  std::string options;
  std::string_view title;
  for (const OptionGroup& group : command.groups) {
    if (group.options.empty()) continue;
    options += options_section(group.title == title ? "" : group.title, group.options);
    title = group.title;
  }
  options += options_section("common options", common_options_of(command));
  const std::string name = fmt::format("gpuwarden-{}", command.name);
  return from_template("command.man", {{"TITLE", roff_text(fmt::format("GPUWARDEN-{}", command.name))},
                                       {"VERSION", GPUWARDEN_VERSION},
                                       {"NAME", roff_text(name)},
                                       {"SUMMARY", roff_text(command.summary)},
                                       {"USAGE", usage},
                                       {"DESCRIPTION", sentence(command)},
                                       {"OPTIONS", options},
                                       {"END", end_of_page(command.rest == Rest::command ? kRunCodes : "")}});
}

}  // namespace gpuwarden::cli
