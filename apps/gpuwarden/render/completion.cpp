// SPDX-License-Identifier: Apache-2.0
#include "render/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "command.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

constexpr std::string_view kBashHead = R"(# bash completion for gpuwarden; made by `gpuwarden completion bash`.
_gpuwarden() {
  local word=${COMP_WORDS[COMP_CWORD]} before= command= action= options= actions= words= paths= prefix= i
  ((COMP_CWORD > 0)) && before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  # Bash hands "--option=value" over as three words.
  if [[ $word == "=" ]]; then
    word=
  elif [[ $before == "=" ]] && ((COMP_CWORD > 1)); then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}
  ((COMP_CWORD > 2)) && action=${COMP_WORDS[2]}
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null && ((COMP_CWORD > i)); then
        _command_offset $((i + 1))
      else
        mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
      fi
      return
    fi
  done
)";

constexpr std::string_view kBashTail = R"(  if [[ $words || $paths ]]; then
    # A list goes on behind its last comma.
    if [[ $prefix && $word == *,* ]]; then
      prefix=${word%,*},
      word=${word##*,}
    else
      prefix=
    fi
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "$word")
    case $paths in
      files) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word") ;;
      folders) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$word") ;;
    esac
  elif [[ -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$actions --help --version" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ $actions ]] && ((COMP_CWORD == 2)); then
    mapfile -t COMPREPLY < <(compgen -W "$actions" -- "$word")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _gpuwarden gpuwarden
)";

constexpr std::string_view kFishHead = R"(# fish completion for gpuwarden; made by `gpuwarden completion fish`.
function __gpuwarden_start
  test (count (commandline -opc)) -eq 1
end
function __gpuwarden_command
  set -l words (commandline -opc)
  test (count $words) -ge 2; and test $words[2] = $argv[1]
end
function __gpuwarden_action
  set -l words (commandline -opc)
  test (count $words) -eq 2; and test $words[2] = $argv[1]
end
)";

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

std::string command_names() {
  std::string names;
  for (const Subcommand* command : commands()) {
    if (!command->hidden) names += fmt::format("{} ", command->name);
  }
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

std::string fish_option(const Subcommand& command, const Option& option) {
  const Values values = values_of(option);
  std::string text = fmt::format("complete -c gpuwarden -n '__gpuwarden_command {}'", command.name);
  for (const auto name : names_of(option))
    text += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  if (option.kind != OptionKind::flag && option.kind != OptionKind::optional)
    text += values.files ? " -r -F" : values.folders ? " -x -a '(__fish_complete_directories)'" : " -x";
  if (!values.words.empty()) text += fmt::format(" -a '{}'", values.words);
  return fmt::format("{} -d {}\n", text, shell_quoted(option.help));
}

template <class Each>
void for_each_shown(const Each& each) {
  for (const Subcommand* command : commands()) {
    if (!command->hidden) each(*command);
  }
}

}  // namespace

std::string bash_completion() {
  std::string text = std::string(kBashHead) + "  case $command in\n";
  text += fmt::format("    '') actions='{}' ;;\n", command_names());
  std::string values;
  for_each_shown([&](const Subcommand& command) {
    text += fmt::format("    {}) options='{}' actions='{}' ;;\n", command.name, all_names(command),
                        std::string(command.actions));
    for (const Option& option : options_of(command)) values += bash_value(command, option);
  });
  text += fmt::format("    help) options= actions='{}' ;;\n  esac\n", command_names());
  return text + "  case \"$command $before\" in\n" + values + "  esac\n" + std::string(kBashTail);
}

std::string zsh_completion() {
  std::string text =
      "#compdef gpuwarden\n# zsh completion for gpuwarden; made by `gpuwarden completion zsh`.\n_gpuwarden() {\n"
      "  local -a subcommands\n  subcommands=(\n";
  for_each_shown([&](const Subcommand& command) {
    text += fmt::format("    {}\n", shell_quoted(fmt::format("{}:{}", command.name, zsh_text(command.summary))));
  });
  text +=
      "    'help:help for a command'\n    'version:print the version'\n  )\n  if (( CURRENT == 2 )); then\n"
      "    _describe command subcommands\n    return\n  fi\n  local subcommand=$words[2]\n  shift words\n  (( "
      "CURRENT-- ))\n"
      "  case $subcommand in\n    help) _describe command subcommands ;;\n";
  for_each_shown([&](const Subcommand& command) {
    text += fmt::format("    {})\n      _arguments -s -S \\\n", command.name);
    for (const Option& option : options_of(command)) text += zsh_option(option);
    text += zsh_rest(command) + "        && return\n      ;;\n";
  });
  return text +
         "  esac\n}\nif [[ $funcstack[1] == _gpuwarden ]]; then _gpuwarden \"$@\"; else compdef _gpuwarden gpuwarden; "
         "fi\n";
}

std::string fish_completion() {
  std::string text(kFishHead);
  for_each_shown([&](const Subcommand& command) {
    text += fmt::format("complete -c gpuwarden -n __gpuwarden_start -f -a {} -d {}\n", command.name,
                        shell_quoted(command.summary));
  });
  text +=
      "complete -c gpuwarden -n __gpuwarden_start -f -a help -d 'help for a command'\n"
      "complete -c gpuwarden -n __gpuwarden_start -f -a version -d 'print the version'\n";
  for_each_shown([&](const Subcommand& command) {
    if (command.rest == Rest::none)
      text += fmt::format("complete -c gpuwarden -n '__gpuwarden_command {}' -f\n", command.name);
    const std::string actions = std::string(command.actions);
    if (!actions.empty())
      text += fmt::format("complete -c gpuwarden -n '__gpuwarden_action {0}' -f -a '{1}'\n", command.name, actions);
    for (const Option& option : options_of(command)) text += fish_option(command, option);
    if (command.rest == Rest::command)
      text += fmt::format("complete -c gpuwarden -n '__gpuwarden_command {}' -x -a '(__fish_complete_subcommand)'\n",
                          command.name);
  });
  return text;
}

}  // namespace gpuwarden::cli
