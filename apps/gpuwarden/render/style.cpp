// SPDX-License-Identifier: Apache-2.0
#include "render/style.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {

std::string Style::paint(std::string_view text, Tone tone) const {
  if (!colour || tone == Tone::plain) return std::string(text);
  const char* code = "0";
  if (tone == Tone::good) code = "32";
  if (tone == Tone::warning) code = "33";
  if (tone == Tone::bad) code = "31";
  if (tone == Tone::dim) code = "2";
  if (tone == Tone::bold) code = "1";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

Result<Style> style_of(const Context& context) {
  const std::string when = context.args.text("color").value_or("auto");
  if (when != "auto" && when != "always" && when != "never") {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--color: '{}' is not auto, always or never", printable(when)));
  }
  const auto has = [&](const char* name) {
    const auto found = context.environment.find(name);
    return found != context.environment.end() && !found->second.empty();
  };
  Style style;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  style.colour = when == "always" || (when == "auto" && terminal && !has("NO_COLOR"));
  winsize size{};
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = size.ws_col;
    style.measured = true;
  }
  if (has("COLUMNS")) {
    const auto columns = parse_integer(context.environment.at("COLUMNS"));
    if (columns && *columns > 0) {
      style.width = static_cast<std::size_t>(*columns);
      style.measured = true;
    }
  }
  style.columns = std::clamp<std::size_t>(style.width, 20, 250);
  style.width = std::clamp<std::size_t>(style.width, 80, 250);
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
