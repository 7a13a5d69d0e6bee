// SPDX-License-Identifier: Apache-2.0
// A screen as cells: what drawing writes into, tests compare, and screens show.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::view {

/// Columns and rows; none is negative.
struct Extent {
  int width = 0;
  int height = 0;
  bool operator==(const Extent&) const = default;
};

/// From the top left corner, 0-based.
struct Point {
  int x = 0;
  int y = 0;
  bool operator==(const Point&) const = default;
};

struct Rect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool contains(Point at) const { return at.x >= x && at.x < x + width && at.y >= y && at.y < y + height; }
  bool operator==(const Rect&) const = default;
};

/// What a text is, which screens turn into colours. Load goes from idle (load0) to busy (load4) and is never the colour
/// of a fault.
enum class Tone : std::uint8_t {
  plain,
  dim,
  bold,
  title,  ///< names of things: a GPU's card, a table's head
  key,    ///< a key in the bar of keys
  good,
  warning,
  fault,
  load0,
  load1,
  load2,
  load3,
  load4,
  count_
};

/// `share` from 0 to 1, on the scale of load.
Tone load_tone(double share);

struct Cell {
  char32_t glyph = U' ';  ///< 0: the right half of the wide glyph before it
  Tone tone = Tone::plain;
  bool inverse = false;
  bool operator==(const Cell&) const = default;
};

/// Columns that a text takes when it is put on a canvas.
int display_width(std::string_view text);

/// Whatever is put outside is cut off. Texts may hold anything: control characters and invalid UTF-8 become '?', and on
/// an ASCII canvas so does everything else that is not ASCII.
class Canvas {
 public:
  static constexpr int kNoLimit = std::numeric_limits<int>::max();

  explicit Canvas(Extent extent, bool ascii = false);

  Extent extent() const { return extent_; }
  bool ascii() const { return ascii_; }
  /// Writes the text; one wider than `most` columns ends in "…" there. The columns it took.
  int put(Point at, std::string_view text, Tone tone = Tone::plain, int most = kNoLimit);
  /// Writes the text so that it ends before column `at.x`, cut to `most` columns.
  void put_right(Point at, std::string_view text, Tone tone = Tone::plain, int most = kNoLimit);
  void put_glyph(Point at, char32_t glyph, Tone tone = Tone::plain);
  void fill(Rect area, char32_t glyph, Tone tone = Tone::plain);
  /// Shows the cells inverted: a selection.
  void invert(Rect area);

  const Cell& at(Point where) const { return cells_[index_of(where)]; }
  /// A row as text, without blanks at its end.
  std::string row(int y) const;
  /// All rows, a line each.
  std::string text() const;

  bool operator==(const Canvas&) const = default;

 private:
  std::size_t index_of(Point at) const {
    return static_cast<std::size_t>(at.y) * static_cast<std::size_t>(extent_.width) + static_cast<std::size_t>(at.x);
  }
  bool inside(Point at) const { return at.x >= 0 && at.y >= 0 && at.x < extent_.width && at.y < extent_.height; }
  void place(Point at, char32_t glyph, int width, Tone tone);

  Extent extent_;
  bool ascii_;
  std::vector<Cell> cells_;
};

/// What the terminal can show.
enum class Glyphs {
  braille,  ///< eight dots in a cell
  block,    ///< eighths of a cell
  ascii,
};

/// How many colours a terminal has.
enum class Colours { none, eight, many };

/// The canvas as lines of text for a pipe or a file, with escapes for colours where there are any.
std::string to_text(const Canvas& canvas, Colours colours);

/// UTF-8 of one character.
void append_utf8(std::string& text, char32_t glyph);

}  // namespace gpuwarden::view
