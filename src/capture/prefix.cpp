// SPDX-License-Identifier: Apache-2.0
#include "capture/prefix.hpp"

#include <algorithm>
#include <cctype>

#include "capture/lines.hpp"

namespace gpuwarden::capture {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.'; }

/// How many characters fit `shape`, in which 'd' is a digit and any other character itself; 0 where they do not.
std::size_t fits(std::string_view text, std::string_view shape) {
  if (text.size() < shape.size()) return 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 'd' ? !is_digit(text[i]) : text[i] != shape[i]) return 0;
  }
  return shape.size();
}

std::size_t blanks_at(std::string_view text) { return std::min(text.find_first_not_of(' '), text.size()); }

/// "2024-05-01T12:00:00.123456Z ", "2024-05-01 12:00:00,123 ", "[2024-05-01 12:00:00] "; without the first blank only.
std::size_t time_at(std::string_view line) {
  const bool bracketed = line.starts_with('[');
  std::string_view text = line.substr(bracketed ? 1 : 0);
  std::size_t length = fits(text, "dddd-dd-ddTdd:dd:dd");
  if (length == 0) length = fits(text, "dddd-dd-dd dd:dd:dd");
  if (length == 0) return 0;
  const auto rest = [&] { return text.substr(length); };
  if (!rest().empty() && (rest()[0] == '.' || rest()[0] == ',')) {
    ++length;
    while (!rest().empty() && is_digit(rest()[0])) ++length;
  }
  if (rest().starts_with('Z')) ++length;
  if (fits(rest(), "+dd:dd") != 0 || fits(rest(), "-dd:dd") != 0) length += 6;
  if (bracketed && !rest().starts_with(']')) return 0;
  if (bracketed) ++length;
  if (!rest().empty() && rest()[0] != ' ') return 0;
  return (bracketed ? 1 : 0) + std::min(length + 1, text.size());
}

/// "INFO 2024-05-01T12:00:00.123456Z ", as log services write it.
std::size_t level_and_time_at(std::string_view line) {
  for (const std::string_view level : {"INFO ", "ERROR ", "WARNING ", "WARN ", "DEBUG ", "DEFAULT "}) {
    if (!line.starts_with(level)) continue;
    const std::size_t time = time_at(line.substr(level.size()));
    return time == 0 ? 0 : level.size() + time;
  }
  return time_at(line);
}

/// "stdout F ", as container runtimes write it behind the time.
std::size_t stream_at(std::string_view text) {
  for (const std::string_view stream : {"stdout F ", "stderr F ", "stdout P ", "stderr P "}) {
    if (text.starts_with(stream)) return stream.size();
  }
  return 0;
}

/// "[0] ", "[rank0]: ", "[default3]:", "[pod/trainer-0/main] ", "(worker pid=77, ip=10.0.0.1) ".
Prefix bracket_at(std::string_view text) {
  const bool square = text.starts_with('[');
  if (!square && !text.starts_with('(')) return {};
  const std::size_t close = text.find(square ? ']' : ')');
  if (close > 80) return {};  // none at all is further still
  const std::string_view inside = text.substr(1, close - 1);
  const bool number = !inside.empty() && std::ranges::all_of(inside, is_digit);
  const bool rank = inside.starts_with("rank") || inside.starts_with("default") || inside.starts_with("pod/");
  if (square ? !(number || rank) : !inside.contains("pid=")) return {};
  std::size_t length = close + 1;
  if (length < text.size() && text[length] == ':') ++length;
  if (length < text.size() && text[length] == ' ') ++length;
  return {length, inside};
}

/// "gpu-1  | ", as docker compose writes it. A table's own bar stands at its left edge.
Prefix service_at(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_name(text[end])) ++end;
  const std::size_t bar = end + blanks_at(text.substr(std::min(end, text.size())));
  const bool has_letter = std::isalpha(static_cast<unsigned char>(text.empty() ? ' ' : text[0])) != 0;
  if (!has_letter || bar == end || text.substr(bar, 2) != "| ") return {};
  return {bar + 2, text.substr(0, end)};
}

}  // namespace

Prefix prefix_of(std::string_view line) {
  Prefix whole;
  for (int round = 0; round < 4; ++round) {
    const std::string_view rest = line.substr(whole.length);
    Prefix next{level_and_time_at(rest), {}};
    if (next.length == 0 && whole.length > 0) next.length = stream_at(rest);
    if (next.length == 0) next = bracket_at(rest);
    if (next.length == 0) next = service_at(rest);
    if (next.length == 0) break;
    whole.length += next.length;
    if (!next.speaker.empty()) whole.speaker = next.speaker;
  }
  return whole;
}

Prefix weak_prefix_of(std::string_view line) {
  std::size_t end = 0;
  while (end < line.size() && is_name(line[end])) ++end;
  if (end == 0 || end > 64 || line.substr(end, 1) != ":") return {};
  if (end + 1 == line.size()) return {end + 1, line.substr(0, end)};
  return line[end + 1] == ' ' ? Prefix{end + 2, line.substr(0, end)} : Prefix{};
}

}  // namespace gpuwarden::capture
