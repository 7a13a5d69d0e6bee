// SPDX-License-Identifier: Apache-2.0
#include "view/graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpuwarden::view {
namespace {

/// Dots of a braille cell from the bottom up, in its left and right column.
constexpr std::array<std::array<unsigned, 4>, 2> kDots{{{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}}};
constexpr char32_t kBraille = 0x2800;
constexpr std::array<char32_t, 9> kRising{U' ', U'▁', U'▂', U'▃', U'▄', U'▅', U'▆', U'▇', U'█'};
constexpr std::array<char32_t, 9> kGrowing{U' ', U'▏', U'▎', U'▍', U'▌', U'▋', U'▊', U'▉', U'█'};
constexpr std::array<char32_t, 4> kAscii{U' ', U'.', U':', U'|'};

/// Steps in which a cell can be filled from the bottom.
int steps_in_cell(Glyphs glyphs) {
  if (glyphs == Glyphs::braille) return 4;
  return glyphs == Glyphs::block ? 8 : 3;
}

/// How many steps a value reaches; what is there at all shows. -1: nothing is known.
int steps_of(float value, const Axis& axis, int most) {
  if (std::isnan(value)) return -1;
  const int steps = static_cast<int>(std::lround(axis.share_of(value) * most));
  return std::clamp(steps, 1, most);
}

char32_t glyph_for(int left, int right, Glyphs glyphs) {
  if (glyphs == Glyphs::ascii) return kAscii.at(static_cast<std::size_t>(std::clamp(right, 0, 3)));
  if (glyphs == Glyphs::block) return kRising.at(static_cast<std::size_t>(std::clamp(right, 0, 8)));
  unsigned bits = 0;
  for (int i = 0; i < std::clamp(left, 0, 4); ++i) bits |= kDots[0].at(static_cast<std::size_t>(i));
  for (int i = 0; i < std::clamp(right, 0, 4); ++i) bits |= kDots[1].at(static_cast<std::size_t>(i));
  return bits == 0 ? U' ' : kBraille + bits;
}

}  // namespace

double Axis::share_of(double value) const {
  return high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0;
}

int dots_in_cell(Glyphs glyphs) { return glyphs == Glyphs::braille ? 2 : 1; }

void draw_graph(Canvas& canvas, Rect area, std::span<const float> values, const Axis& axis, const Ink& ink) {
  const int per_cell = dots_in_cell(ink.glyphs);
  const int per_row = steps_in_cell(ink.glyphs);
  const int count = static_cast<int>(values.size());
  const auto steps_at = [&](int dot) {  // from the right edge
    return dot < count ? steps_of(values[static_cast<std::size_t>(count - 1 - dot)], axis, area.height * per_row) : -1;
  };
  for (int column = 0; column < area.width; ++column) {
    const int right = steps_at(column * per_cell);
    const int left = per_cell == 2 ? steps_at(column * 2 + 1) : right;
    const int highest = std::max(left, right);
    if (highest < 0) continue;
    for (int row = 0; row * per_row < highest; ++row) {
      const char32_t glyph = glyph_for(left - row * per_row, right - row * per_row, ink.glyphs);
      // Each height has its tone, so that a peak stands out.
      const double height = (row + 0.5) / area.height;
      const double share = area.height == 1 ? static_cast<double>(highest) / per_row - 0.1 : height;
      canvas.put_glyph({area.x + area.width - 1 - column, area.y + area.height - 1 - row}, glyph,
                       ink.tone.value_or(load_tone(share)));
    }
  }
}

void draw_bar(Canvas& canvas, Rect area, std::optional<double> share, std::string_view text, const Ink& ink) {
  if (area.width <= 0) return;
  const bool ascii = ink.glyphs == Glyphs::ascii;
  const bool framed = ascii && area.width > display_width(text) + 2;
  if (framed) {
    canvas.put_glyph({area.x, area.y}, U'[', Tone::dim);
    canvas.put_glyph({area.x + area.width - 1, area.y}, U']', Tone::dim);
    area = {area.x + 1, area.y, area.width - 2, 1};
  }
  const int room = area.width - (text.empty() ? 0 : display_width(text) + (framed ? 0 : 1));
  const double filled = std::clamp(share.value_or(0), 0.0, 1.0);
  const Tone tone = ink.tone.value_or(load_tone(filled));
  if (room > 0) {
    const int steps = static_cast<int>(std::lround(filled * room * 8));
    for (int i = 0; i < room; ++i) {
      const int in_cell = std::clamp(steps - i * 8, 0, 8);
      const char32_t glyph = ascii ? (in_cell >= 4 ? U'|' : U' ') : kGrowing.at(static_cast<std::size_t>(in_cell));
      if (glyph != U' ')
        canvas.put_glyph({area.x + i, area.y}, glyph, tone);
      else if (!ascii)
        canvas.put_glyph({area.x + i, area.y}, U'·', Tone::dim);
    }
  }
  canvas.put_right({area.x + area.width, area.y}, text, share ? Tone::plain : Tone::dim, area.width);
}

}  // namespace gpuwarden::view
