// SPDX-License-Identifier: Apache-2.0
// Commands that change environment variables, in the words of each shell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::toolkits {

/// Shells whose syntax is known; sh, dash, ksh and ash are spoken to as bash.
enum class Shell { bash, zsh, fish };
std::string_view to_string(Shell shell);
/// The shell of a program's name or path: "/usr/bin/zsh", "-bash" (a login shell), "dash". Empty for any other.
std::optional<Shell> shell_from(std::string_view program);

/// The shell whose words are wanted where none is named. `around`: the program that runs this one, which evaluates what
/// is printed; SHELL of the environment is the login shell, which counts more `at_start` of new shells. bash where
/// neither is a shell.
Shell likely_shell(std::string_view around, const Environment& variables, bool at_start);

/// The text as one literal word: nothing in it is expanded, whatever it holds.
std::string quoted(Shell shell, std::string_view text);

/// A variable's new value; none: it is to be unset.
struct Change {
  std::string name;
  std::optional<std::string> value;
  bool operator==(const Change&) const = default;
};

/// One command a line, to be evaluated by the shell.
std::string commands_for(Shell shell, const std::vector<Change>& changes);
/// The environment with the changes made.
Environment with_changes(Environment environment, const std::vector<Change>& changes);

}  // namespace gpuwarden::toolkits
