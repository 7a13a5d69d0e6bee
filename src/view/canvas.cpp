// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/canvas.hpp"

#include <wchar.h>

#include <algorithm>
#include <cmath>

namespace gpuwarden::view {
namespace {

constexpr char32_t kUnreadable = U'?';

/// Takes one character off the front; kUnreadable for what is none.
char32_t take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  char32_t glyph = length == 1 ? lead : lead & (0x7FU >> length);
  bool sound = (lead < 0x80 || lead >= 0xC2) && lead < 0xF5 && text.size() >= length;
  for (std::size_t i = 1; sound && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    sound = (next & 0xC0U) == 0x80U;
    glyph = (glyph << 6U) | (next & 0x3FU);
  }
  text.remove_prefix(sound ? length : 1);
  const bool control = glyph < 0x20 || (glyph >= 0x7F && glyph < 0xA0);
  const bool marks_direction = (glyph >= 0x200B && glyph <= 0x200F) || (glyph >= 0x2028 && glyph <= 0x202E) ||
                               (glyph >= 0x2066 && glyph <= 0x2069);
  return sound && !control && !marks_direction ? glyph : kUnreadable;
}

int glyph_width(char32_t glyph) {
  if (glyph < 0x300 || (glyph >= 0x2500 && glyph < 0x2600) || (glyph >= 0x2800 && glyph < 0x2900)) return 1;
  const int width = ::wcwidth(static_cast<wchar_t>(glyph));
  return width < 0 ? 1 : width;
}

}  // namespace

Tone load_tone(double share) {
  const int step = static_cast<int>(std::clamp(std::isnan(share) ? 0.0 : share, 0.0, 0.999) * 5);
  return static_cast<Tone>(static_cast<int>(Tone::load0) + step);
}

void append_utf8(std::string& text, char32_t glyph) {
  const auto low = [&](unsigned shift) { return static_cast<char>(0x80U | ((glyph >> shift) & 0x3FU)); };
  if (glyph < 0x80) {
    text += static_cast<char>(glyph);
  } else if (glyph < 0x800) {
    text += {static_cast<char>(0xC0U | (glyph >> 6U)), low(0)};
  } else if (glyph < 0x10000) {
    text += {static_cast<char>(0xE0U | (glyph >> 12U)), low(6), low(0)};
  } else {
    text += {static_cast<char>(0xF0U | (glyph >> 18U)), low(12), low(6), low(0)};
  }
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) width += glyph_width(take_character(text));
  return width;
}

Canvas::Canvas(Extent extent, bool ascii)
    : extent_{std::max(extent.width, 0), std::max(extent.height, 0)},
      ascii_(ascii),
      cells_(static_cast<std::size_t>(extent_.width) * static_cast<std::size_t>(extent_.height)) {}

void Canvas::place(Point at, char32_t glyph, int width, Tone tone) {
  if (!inside(at)) return;
  // What is overwritten by half leaves a blank.
  if (cells_[index_of(at)].glyph == 0 && at.x > 0) cells_[index_of({at.x - 1, at.y})].glyph = U' ';
  const Point next{at.x + 1, at.y};
  if (inside(next) && cells_[index_of(next)].glyph == 0 && width == 1) cells_[index_of(next)].glyph = U' ';
  if (width == 2 && !inside(next)) glyph = U' ';
  cells_[index_of(at)] = {.glyph = glyph, .tone = tone};
  if (width == 2 && inside(next)) place(next, U' ', 1, tone);
  if (width == 2 && inside(next)) cells_[index_of(next)].glyph = 0;
}

int Canvas::put(Point at, std::string_view text, Tone tone, int most) {
  if (most <= 0) return 0;
  const int begin = at.x;
  const bool cut = most != kNoLimit && display_width(text) > most;
  const int end = most == kNoLimit ? extent_.width : begin + most - (cut ? 1 : 0);
  while (!text.empty()) {
    char32_t glyph = take_character(text);
    if (ascii_ && glyph >= 0x80) glyph = kUnreadable;
    const int width = glyph_width(glyph);
    if (width == 0) continue;
    if (at.x + width > end) break;
    place(at, glyph, width, tone);
    at.x += width;
  }
  if (cut) place({at.x++, at.y}, ascii_ ? U'~' : U'…', 1, tone);
  return at.x - begin;
}

void Canvas::put_right(Point at, std::string_view text, Tone tone, int most) {
  const int width = std::min(display_width(text), most);
  put({at.x - width, at.y}, text, tone, width);
}

void Canvas::put_glyph(Point at, char32_t glyph, Tone tone) { place(at, glyph, 1, tone); }

void Canvas::fill(Rect area, char32_t glyph, Tone tone) {
  for (int y = std::max(area.y, 0); y < std::min(area.y + area.height, extent_.height); ++y) {
    for (int x = std::max(area.x, 0); x < std::min(area.x + area.width, extent_.width); ++x)
      place({x, y}, glyph, 1, tone);
  }
}

void Canvas::invert(Rect area) {
  for (int y = std::max(area.y, 0); y < std::min(area.y + area.height, extent_.height); ++y) {
    for (int x = std::max(area.x, 0); x < std::min(area.x + area.width, extent_.width); ++x)
      cells_[index_of({x, y})].inverse = true;
  }
}

std::string Canvas::row(int y) const {
  std::string text;
  for (int x = 0; x < extent_.width; ++x) {
    const char32_t glyph = at({x, y}).glyph;
    if (glyph != 0) append_utf8(text, glyph);
  }
  return text.erase(text.find_last_not_of(' ') + 1);
}

std::string Canvas::text() const {
  std::string text;
  for (int y = 0; y < extent_.height; ++y) text += row(y) + "\n";
  return text;
}

}  // namespace gpuwarden::view
