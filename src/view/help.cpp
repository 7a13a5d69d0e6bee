// SPDX-License-Identifier: Apache-2.0
// The help: what the table of keys says.
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/view/keys.hpp"
#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

struct HelpLine {
  std::string keys;
  std::string text;
};

std::string keys_of(const KeyRow& row) {
  std::string text;
  for (const KeyCode code : row.keys)
    if (code != KeyCode::none) text += (text.empty() ? "" : " ") + name_of(code);
  return text;
}

std::vector<HelpLine> all_help_lines() {
  std::vector<HelpLine> lines;
  for (const KeyRow& row : key_rows())
    if (!row.help.empty()) lines.push_back({keys_of(row), std::string(row.help)});
  lines.push_back({"click wheel", "select; scroll (m gives the mouse back to the terminal)"});
  lines.push_back({"", ""});
  lines.push_back({"filter", "temp > 85 & user == ann   throttle   memory_used > 50%   command ~ train"});
  lines.push_back({"load", "blue is little, yellow is much; red is a fault and nothing else"});
  lines.push_back(
      {"cells above the lines", "a GPU each, where not all are in sight: trouble, else load; click selects"});
  return lines;
}

constexpr int kKeyColumns = 26;

/// A text broken between words; a word that is wider than a line stands alone.
std::vector<std::string> broken(std::string_view text, int width) {
  std::vector<std::string> lines(1);
  for (const auto word : split_words(text)) {
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + std::string(word);
  }
  return lines;
}

/// The help as it stands on a page of this width: what is wider goes on below, keys and text each in their column.
std::vector<HelpLine> help_page(int width) {
  std::vector<HelpLine> page;
  for (const HelpLine& line : all_help_lines()) {
    const auto keys = broken(line.keys, kKeyColumns);
    // Wide blanks part examples.
    const bool fits = display_width(line.text) <= width - kKeyColumns - 2;
    const auto text = fits ? std::vector<std::string>{line.text} : broken(line.text, width - kKeyColumns - 2);
    for (std::size_t i = 0; i < std::max(keys.size(), text.size()); ++i)
      page.push_back({i < keys.size() ? keys[i] : "", i < text.size() ? text[i] : ""});
  }
  return page;
}

}  // namespace

std::size_t help_lines(int width) { return help_page(width).size(); }

void draw_help(const Frame& frame, Rect area) {
  const auto lines = help_page(area.width);
  const std::size_t first = frame.state.first_line;
  const auto height = static_cast<std::size_t>(std::max(area.height, 0));
  const bool more = lines.size() > first + height && height > 1;
  const std::size_t shown = more ? height - 1 : height;
  int y = area.y;
  for (std::size_t nth = first; nth < std::min(lines.size(), first + shown); ++nth, ++y) {
    frame.canvas.put({area.x + 1, y}, lines[nth].keys, Tone::key, std::min(kKeyColumns, area.width - 1));
    frame.canvas.put({area.x + kKeyColumns + 2, y}, lines[nth].text, Tone::plain, area.width - kKeyColumns - 2);
  }
  if (more)
    frame.canvas.put({area.x + 1, y}, fmt::format("{} more lines: PgDn", lines.size() - first - shown), Tone::dim,
                     area.width - 1);
}

}  // namespace gpuwarden::view
