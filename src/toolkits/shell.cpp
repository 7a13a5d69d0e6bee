// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/shell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gpuwarden::toolkits {

namespace {

constexpr std::array<std::pair<std::string_view, Shell>, 7> kPrograms{{{"bash", Shell::bash},
                                                                       {"zsh", Shell::zsh},
                                                                       {"fish", Shell::fish},
                                                                       {"sh", Shell::bash},
                                                                       {"dash", Shell::bash},
                                                                       {"ksh", Shell::bash},
                                                                       {"ash", Shell::bash}}};

std::string command_for(Shell shell, const Change& change) {
  if (shell == Shell::fish) {
    return change.value ? fmt::format("set -gx {} {}\n", change.name, quoted(shell, *change.value))
                        : fmt::format("set -e {}\n", change.name);
  }
  return change.value ? fmt::format("export {}={}\n", change.name, quoted(shell, *change.value))
                      : fmt::format("unset {}\n", change.name);
}

}  // namespace

std::string_view to_string(Shell shell) {
  switch (shell) {
    case Shell::bash:
      return "bash";
    case Shell::zsh:
      return "zsh";
    case Shell::fish:
      return "fish";
  }
  return "bash";
}

std::optional<Shell> shell_from(std::string_view program) {
  program.remove_prefix(program.rfind('/') + 1);  // npos + 1 is 0
  if (program.starts_with('-')) program.remove_prefix(1);
  const auto* const found = std::ranges::find(kPrograms, program, &decltype(kPrograms)::value_type::first);
  return found == kPrograms.end() ? std::nullopt : std::optional(found->second);
}

Shell likely_shell(std::string_view around, const Environment& variables, bool at_start) {
  const auto login = variables.find("SHELL");
  const auto parent = shell_from(around);
  const auto own = login == variables.end() ? std::nullopt : shell_from(login->second);
  const auto first = at_start ? own : parent;
  return first.value_or((at_start ? parent : own).value_or(Shell::bash));
}

std::string quoted(Shell shell, std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    // In fish a backslash works inside single quotes; in the others a quote must leave them.
    if (shell == Shell::fish && (c == '\'' || c == '\\')) {
      result += '\\';
      result += c;
    } else if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::string commands_for(Shell shell, const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) text += command_for(shell, change);
  return text;
}

Environment with_changes(Environment environment, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (change.value)
      environment[change.name] = *change.value;
    else
      environment.erase(change.name);
  }
  return environment;
}

}  // namespace gpuwarden::toolkits
