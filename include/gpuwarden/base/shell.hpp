// SPDX-License-Identifier: Apache-2.0
// Words for a POSIX shell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden {

/// The text as one word of a POSIX shell: in single quotes where any of its characters means something to the shell,
/// else as it is. What comes from other people's files stands in commands only through this.
std::string shell_word(std::string_view text);
/// The words as one line, each as shell_word() gives it.
std::string shell_line(const std::vector<std::string>& words);
/// The text in single quotes in any case.
std::string shell_quoted(std::string_view text);
/// The words of a line as a POSIX shell splits it: quotes and backslashes, a backslash at a line's end. Nothing is
/// expanded, and operators are plain text. Empty where a quote is not closed.
std::optional<std::vector<std::string>> split_shell_words(std::string_view line);
/// The user's own shell: SHELL, else /bin/sh.
std::string shell_of(const Environment& environment);

}  // namespace gpuwarden
