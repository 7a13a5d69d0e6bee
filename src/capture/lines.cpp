// SPDX-License-Identifier: Apache-2.0
#include "capture/lines.hpp"

namespace gpuwarden::capture {
namespace {

/// The position behind the escape sequence that begins at `at`.
std::size_t skip_escape(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size() || text[at + 1] != '[') return at + 1;
  std::size_t end = at + 2;
  while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
  return end < text.size() ? end + 1 : end;
}

std::string cleaned(std::string_view line) {
  std::string result;
  result.reserve(line.size());
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      i = skip_escape(line, i);
    } else {
      if (line[i] != '\r' && line[i] != '\0') result += line[i];
      ++i;
    }
  }
  result.erase(result.find_last_not_of(" \t") + 1);
  return result;
}

/// "> | NVIDIA-SMI ...": without the marks of quotations in mails and issues.
std::string_view unquoted(std::string_view line) {
  while (line.starts_with('>')) line.remove_prefix(line.starts_with("> ") ? 2 : 1);
  return line;
}

}  // namespace

std::vector<Line> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<Line> lines;
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool ended = end != std::string_view::npos;
    lines.push_back({cleaned(unquoted(text.substr(0, end))), ++number, ended});
    text.remove_prefix(ended ? end + 1 : text.size());
  }
  return lines;
}

}  // namespace gpuwarden::capture
