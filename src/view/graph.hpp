// SPDX-License-Identifier: Apache-2.0
// Bars and graphs of cells.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "gpuwarden/view/canvas.hpp"

namespace gpuwarden::view {

/// What a graph's lower and upper edge stand for.
struct Axis {
  double low = 0;
  double high = 100;
  double share_of(double value) const;  ///< 0 to 1; values beyond the edges are at them
};

/// How a graph is drawn: with which glyphs, and whether its tone says how high it is.
struct Ink {
  Glyphs glyphs = Glyphs::braille;
  std::optional<Tone> tone;  ///< nothing: by the scale of load
};

/// Values for one cell's width: two with braille, else one.
int dots_in_cell(Glyphs glyphs);

/// Draws values as an area, the newest (the last) at the right edge, NaN as a gap. Where there are more values than
/// columns of dots, the oldest are left out.
void draw_graph(Canvas& canvas, Rect area, std::span<const float> values, const Axis& axis, const Ink& ink);

/// "█████▌     text": a bar from 0 to 1 with a text at its right end; "[||||   text]" in ASCII. Nothing: only the text.
void draw_bar(Canvas& canvas, Rect area, std::optional<double> share, std::string_view text, const Ink& ink);

}  // namespace gpuwarden::view
