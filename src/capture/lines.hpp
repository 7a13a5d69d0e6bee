// SPDX-License-Identifier: Apache-2.0
// Text as lines that readers can trust: without escapes and carriage returns, each knowing whether it ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::capture {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Line {
  std::string text;          ///< without line end, escape sequences and white space at its end
  std::uint32_t number = 0;  ///< in its file, from 1
  bool ended = true;         ///< false for a last line without a line end: it may have been cut
  std::string speaker;       ///< rank, container or host that a log's prefix named; the prefix itself is gone
};

/// Removes ANSI escape sequences, carriage returns, byte order marks, the '>' of quotations, and what log collectors
/// and launchers put before lines. Lines of several speakers come speaker by speaker.
std::vector<Line> lines_of(std::string_view text);

}  // namespace gpuwarden::capture
