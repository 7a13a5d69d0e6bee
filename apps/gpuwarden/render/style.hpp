// SPDX-License-Identifier: Apache-2.0
// What the terminal can: width and colour.
#pragma once

#include <string>
#include <string_view>

#include "command.hpp"

namespace gpuwarden::cli {

enum class Tone { plain, good, warning, bad, dim, bold };

struct Style {
  bool colour = false;
  std::size_t width = 80;    ///< 80 to 250, for text that would be unreadable below
  std::size_t columns = 80;  ///< the terminal's own, from 20, for tables that can leave columns out
  bool measured = false;     ///< a terminal or COLUMNS says so; else lines may be as long as they are
  /// The text in a tone; unchanged without colour.
  std::string paint(std::string_view text, Tone tone) const;
};

/// What is known of the terminal behind standard output, without the line that a shell's prompt takes. COLUMNS and
/// LINES of the environment go before it.
struct TerminalSize {
  std::optional<std::size_t> columns;
  std::optional<std::size_t> lines;
};
TerminalSize terminal_size(const Environment& environment);

/// --color, NO_COLOR, COLUMNS and the terminal behind standard output. Fails on another --color.
Result<Style> style_of(const Context& context);

/// The text cut or padded to exactly `width` columns, counted in code points.
std::string fit(std::string_view text, std::size_t width, bool right = false);
/// The text, cut where it is wider than the style's lines.
std::string cut(std::string_view text, const Style& style);
/// How many columns a text takes.
std::size_t width_of(std::string_view text);
/// Breaks a text at blanks; the first line begins at `first`, the others at `indent`.
std::string wrapped(std::string_view text, std::size_t first, std::size_t indent, std::size_t width);
/// Lines of their own: the text broken at the style's width, the first line behind `first` blanks, the others behind
/// `indent`.
std::string paragraph(std::string_view text, std::size_t first, std::size_t indent, const Style& style);
/// "1 rule", "2 rules"; `many` where it is not `one` with an s.
std::string counted(std::uint64_t count, std::string_view one, std::string_view many = {});
/// "[####------]": `share` from 0 to 1.
std::string bar(double share, std::size_t width);

}  // namespace gpuwarden::cli
