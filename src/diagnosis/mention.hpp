// SPDX-License-Identifier: Apache-2.0
// Tells an error from words about one: source code that has the message, help texts, what might happen.
#pragma once

#include <string_view>

namespace gpuwarden::diagnosis {

/// Whether a line is source code that holds a message, or an option's help: it is printed by nobody. `raw` has the
/// line's own blanks, `text` is without them and without a prefix.
bool is_code_or_help(std::string_view raw, std::string_view text);

/// What a text tells of what happened: without its first sentence where that gives advice, describes an error, says
/// what was once mended, or asks others; up to where that says what might be. What somebody tells of themselves ("when
/// I start it I get") happened.
std::string_view what_happened(std::string_view text);

}  // namespace gpuwarden::diagnosis
