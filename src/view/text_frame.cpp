// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "view/palette.hpp"

namespace gpuwarden::view {
namespace {

/// What switches to a cell's look, from the terminal's own.
std::string escape_of(const Cell& cell, Colours colours) {
  const Look& look = look_of(cell.tone);
  std::string codes;
  const auto add = [&](const std::string& code) { codes += (codes.empty() ? "" : ";") + code; };
  if (look.bold) add("1");
  if (look.dim && (colours == Colours::eight || look.many < 0)) add("2");
  if (cell.inverse) add("7");
  if (colours == Colours::many && look.many >= 0) add(fmt::format("38;5;{}", look.many));
  if (colours == Colours::eight && look.eight >= 0) add(fmt::format("{}", 30 + look.eight));
  return codes.empty() ? "" : "\x1b[" + codes + "m";
}

std::string coloured_row(const Canvas& canvas, int y, Colours colours) {
  std::string text;
  std::string before;
  for (int x = 0; x < canvas.extent().width; ++x) {
    const Cell& cell = canvas.at({x, y});
    if (cell.glyph == 0) continue;
    const std::string escape = escape_of(cell, colours);
    if (escape != before) text += (before.empty() ? "" : "\x1b[0m") + escape;
    before = escape;
    append_utf8(text, cell.glyph);
  }
  if (!before.empty()) return text + "\x1b[0m";
  return text.erase(text.find_last_not_of(' ') + 1);
}

}  // namespace

std::string to_text(const Canvas& canvas, Colours colours) {
  if (colours == Colours::none) return canvas.text();
  std::string text;
  for (int y = 0; y < canvas.extent().height; ++y) text += coloured_row(canvas, y, colours) + "\n";
  return text;
}

}  // namespace gpuwarden::view
