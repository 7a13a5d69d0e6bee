// SPDX-License-Identifier: Apache-2.0
#include "render/style.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {

std::string Style::paint(std::string_view text, Tone tone) const {
  if (!colour || tone == Tone::plain) return std::string(text);
  static constexpr std::array kCodes{0, 32, 33, 31, 2, 1};  // in Tone's order
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(tone)], text);
}

TerminalSize terminal_size(const Environment& environment) {
  TerminalSize size;
  winsize terminal{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0) {
    if (terminal.ws_col > 0) size.columns = terminal.ws_col;
    if (terminal.ws_row > 1) size.lines = terminal.ws_row - 1U;
  }
  for (const auto& [name, value] : {std::pair("COLUMNS", &size.columns), std::pair("LINES", &size.lines)}) {
    const auto found = environment.find(name);
    const auto number = found == environment.end() ? std::nullopt : parse_integer(found->second);
    if (number && *number > 0) *value = static_cast<std::size_t>(*number);
  }
  return size;
}

Result<Style> style_of(const Context& context) {
  const std::string when = context.args.text("color").value_or("auto");
  if (when != "auto" && when != "always" && when != "never") {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--color: '{}' is not auto, always or never", printable(when)));
  }
  const auto no_color = context.environment.find("NO_COLOR");
  const bool plain = no_color != context.environment.end() && !no_color->second.empty();
  const auto columns = terminal_size(context.environment).columns;
  Style style;
  style.colour = when == "always" || (when == "auto" && ::isatty(STDOUT_FILENO) == 1 && !plain);
  style.measured = columns.has_value();
  style.columns = std::clamp<std::size_t>(columns.value_or(style.columns), 20, 250);
  style.width = std::clamp<std::size_t>(style.columns, 80, 250);
  return style;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string fit(std::string_view text, std::size_t width, bool right) {
  const std::size_t own = width_of(text);
  if (own <= width) {
    const std::string padding(width - own, ' ');
    return right ? padding + std::string(text) : std::string(text) + padding;
  }
  std::string kept;
  std::size_t columns = 0;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (starts && ++columns > width - 1) break;
    kept += c;
  }
  return kept + "~";
}

std::string cut(std::string_view text, const Style& style) { return fit(text, std::min(style.width, width_of(text))); }

std::string wrapped(std::string_view text, std::size_t first, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = first;
  for (const auto word : split_words(text)) {
    const std::size_t size = width_of(word);
    if (column > indent && column + 1 + size > width) {
      result.append("\n").append(indent, ' ');
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += size;
  }
  return result;
}

std::string paragraph(std::string_view text, std::size_t first, std::size_t indent, const Style& style) {
  return std::string(first, ' ') + wrapped(text, first, indent, style.width) + "\n";
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

std::string bar(double share, std::size_t width) {
  const auto full = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(width)));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

}  // namespace gpuwarden::cli
