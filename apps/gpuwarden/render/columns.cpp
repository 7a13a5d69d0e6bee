// SPDX-License-Identifier: Apache-2.0
#include "render/columns.hpp"

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {

std::string columns(const std::vector<std::vector<std::string>>& rows, const Style& style, std::size_t indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(printable(row[i])));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      line += last ? printable(row[i]) : fit(printable(row[i]), widths[i]) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (&row == &rows.front() ? style.paint(line, Tone::bold) : line) + "\n";
  }
  return text;
}

}  // namespace gpuwarden::cli
