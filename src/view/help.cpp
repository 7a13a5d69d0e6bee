// SPDX-License-Identifier: Apache-2.0
// The help: what the table of keys says.
#include <algorithm>

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

}  // namespace

std::size_t help_lines() { return all_help_lines().size(); }

void draw_help(const Frame& frame, Rect area) {
  const auto lines = all_help_lines();
  constexpr int kKeys = 26;
  for (int i = 0; i < area.height; ++i) {
    const std::size_t nth = frame.state.first_line + static_cast<std::size_t>(i);
    if (nth >= lines.size()) return;
    frame.canvas.put({area.x + 1, area.y + i}, lines[nth].keys, Tone::key, std::min(kKeys, area.width - 1));
    frame.canvas.put({area.x + kKeys + 2, area.y + i}, lines[nth].text, Tone::plain, area.width - kKeys - 2);
  }
}

}  // namespace gpuwarden::view
