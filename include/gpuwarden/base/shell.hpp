// SPDX-License-Identifier: Apache-2.0
// Words for a POSIX shell.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden {

/// The text as one word of a POSIX shell: in single quotes where any of its characters means something to the shell,
/// else as it is. What comes from other people's files stands in commands only through this.
std::string shell_word(std::string_view text);
/// The text in single quotes in any case.
std::string shell_quoted(std::string_view text);

}  // namespace gpuwarden
