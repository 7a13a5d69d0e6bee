// SPDX-License-Identifier: Apache-2.0
#include "render/completion.hpp"

#include <fmt/format.h>

#include "command.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "render/from_template.hpp"

namespace gpuwarden::cli {
namespace {

/// What may stand as an option's value.
struct Values {
  std::string words;
  bool files = false;
  bool folders = false;
  bool empty() const { return words.empty() && !files && !folders; }
};

Values values_of(const Option& option) {
  const std::string_view shown = option.value;
  Values values{.words = option.choices};
  // A placeholder of lower-case words names its own choices: "auto|nvml|nvidia-smi".
  if (values.words.empty() && shown.contains('|')) {
    for (const auto word : split(shown, '|')) {
      if (to_lower(word) == word) values.words += fmt::format("{}{}", values.words.empty() ? "" : " ", word);
    }
  }
  values.files = shown.starts_with("FILE") || shown == "SPEC" || shown == "MODEL";
  values.folders = shown == "DIR";
  return values;
}

std::vector<std::string_view> names_of(const Option& option) { return split(option.names, ','); }

template <class Each>
void for_each_shown(const Each& each) {
  for (const Subcommand* command : commands()) {
    if (!command->hidden) each(*command);
  }
}

std::string command_names() {
  std::string names;
  for_each_shown([&](const Subcommand& command) { names += fmt::format("{} ", command.name); });
  return names + "help version";
}

std::string all_names(const Subcommand& command) {
  std::string names;
  for (const Option& option : options_of(command)) {
    for (const auto name : names_of(option)) names += fmt::format("{}{}", names.empty() ? "" : " ", name);
  }
  return names;
}

/// One line of bash for the value of an option of a command.
std::string bash_value(const Subcommand& command, const Option& option) {
  const Values values = values_of(option);
  if (option.kind == OptionKind::flag || (option.kind == OptionKind::optional && values.empty())) return "";
  std::string patterns;
  for (const auto name : names_of(option))
    patterns += fmt::format("{}\"{} {}\"", patterns.empty() ? "" : " | ", command.name, name);
  // A value that nobody can guess is still no operand.
  return fmt::format("    {}) words='{}' paths={} prefix={} ;;\n", patterns, values.words,
                     values.files     ? "files"
                     : values.folders ? "folders"
                     : values.empty() ? "none"
                                      : "''",
                     option.kind == OptionKind::list ? "list" : "''");
}

/// Brackets and colons end a description of zsh's _arguments.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_action(const Option& option) {
  const Values values = values_of(option);
  if (values.files && !values.words.empty()) return fmt::format("{{compadd -- {}; _files}}", values.words);
  if (values.files) return "_files";
  if (values.folders) return "_files -/";
  if (values.empty()) return " ";
  return option.kind == OptionKind::list ? fmt::format("_values -s , value {}", values.words)
                                         : fmt::format("({})", values.words);
}

/// One argument of _arguments for each name: '--gpu[only these]:ID:_files'.
std::string zsh_option(const Option& option) {
  std::string text;
  const bool again = option.kind == OptionKind::list || option.kind == OptionKind::repeated;
  const bool flag = option.kind == OptionKind::flag;
  for (const auto name : names_of(option)) {
    const bool long_name = name.starts_with("--");
    const std::string_view joined = flag || !long_name ? "" : option.kind == OptionKind::optional ? "=-" : "=";
    const std::string value = flag ? ""
                                   : fmt::format("{}{}:{}", option.kind == OptionKind::optional ? "::" : ":",
                                                 zsh_text(option.value), zsh_action(option));
    text += fmt::format("        {} \\\n", shell_quoted(fmt::format("{}{}{}[{}]{}", again ? "*" : "", name, joined,
                                                                    zsh_text(option.help), value)));
  }
  return text;
}

std::string zsh_rest(const Subcommand& command) {
  if (command.rest == Rest::none) return "";
  if (command.rest == Rest::command) return "        '*:::command:_normal' \\\n";
  const std::string actions = std::string(command.actions);
  const std::string first = actions.empty() ? "" : fmt::format("        '1:action:({})' \\\n", actions);
  return first + "        '*:file:_files' \\\n";
}

std::string fish_option(const Option& option) {
  const Values values = values_of(option);
  std::string text;
  for (const auto name : names_of(option))
    text += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  if (option.kind != OptionKind::flag && option.kind != OptionKind::optional)
    text += values.files ? " -r -F" : values.folders ? " -x -a '(__fish_complete_directories)'" : " -x";
  if (!values.words.empty()) text += fmt::format(" -a '{}'", values.words);
  return fmt::format("{} -d {}\n", text, shell_quoted(option.help));
}

}  // namespace

std::string bash_completion() {
  std::string options;
  std::string values;
  for_each_shown([&](const Subcommand& command) {
    options += fmt::format("    {}) options='{}' actions='{}' ;;\n", command.name, all_names(command), command.actions);
    for (const Option& option : options_of(command)) values += bash_value(command, option);
  });
  return from_template("completion.bash",
                       {{"COMMAND_NAMES", command_names()}, {"COMMANDS", options}, {"VALUES", values}});
}

std::string zsh_completion() {
  std::string summaries;
  std::string cases;
  for_each_shown([&](const Subcommand& command) {
    summaries += fmt::format("    {}\n", shell_quoted(fmt::format("{}:{}", command.name, zsh_text(command.summary))));
    cases += fmt::format("    {})\n      _arguments -s -S \\\n", command.name);
    for (const Option& option : options_of(command)) cases += zsh_option(option);
    cases += zsh_rest(command) + "        && return\n      ;;\n";
  });
  return from_template("completion.zsh", {{"SUMMARIES", summaries}, {"COMMANDS", cases}});
}

std::string fish_completion() {
  std::string summaries;
  std::string options;
  for_each_shown([&](const Subcommand& command) {
    summaries += fmt::format("complete -c gpuwarden -n __gpuwarden_start -f -a {} -d {}\n", command.name,
                             shell_quoted(command.summary));
    const std::string within = fmt::format("complete -c gpuwarden -n '__gpuwarden_command {}'", command.name);
    if (command.rest == Rest::none) options += within + " -f\n";
    if (*command.actions != '\0')
      options +=
          fmt::format("complete -c gpuwarden -n '__gpuwarden_action {0}' -f -a '{1}'\n", command.name, command.actions);
    for (const Option& option : options_of(command)) options += within + fish_option(option);
    if (command.rest == Rest::command) options += within + " -x -a '(__fish_complete_subcommand)'\n";
  });
  return from_template("completion.fish", {{"SUMMARIES", summaries}, {"OPTIONS", options}});
}

}  // namespace gpuwarden::cli
