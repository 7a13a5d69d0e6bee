// SPDX-License-Identifier: Apache-2.0
// Slurm's configuration files.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/formats.hpp"

namespace gpuwarden::probe {

namespace {

/// Lines without comments; a backslash at a line's end joins the next one.
std::vector<std::string> logical_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::string line;
  for (const auto raw : split(text, '\n')) {
    std::string_view piece = trim(raw.substr(0, raw.find('#')));
    const bool goes_on = piece.ends_with('\\');
    if (goes_on) piece.remove_suffix(1);
    line += piece;
    line += goes_on ? " " : "";
    if (goes_on) continue;
    if (!line.empty()) lines.push_back(std::move(line));
    line.clear();
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

/// Key=value words of a line, keys in lower case.
std::map<std::string, std::string> settings_of(std::string_view line) {
  std::map<std::string, std::string> settings;
  for (const auto word : split_words(line)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos)
      settings[to_lower(word.substr(0, equals))] = printable(word.substr(equals + 1));
  }
  return settings;
}

std::string value_of(const std::map<std::string, std::string>& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "" : found->second;
}

/// Pieces between commas that stand outside brackets.
std::vector<std::string_view> outer_pieces(std::string_view list) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i > begin) pieces.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return pieces;
}

/// Whether "01-04,07" has the number, with as many digits as written.
bool range_has(std::string_view ranges, std::string_view digits) {
  const auto number = parse_integer(digits);
  if (!number || digits.empty()) return false;
  return std::ranges::any_of(split(ranges, ','), [&](std::string_view range) {
    const std::string_view first = range.substr(0, range.find('-'));
    const std::string_view last = range.contains('-') ? range.substr(range.find('-') + 1) : first;
    const auto low = parse_integer(first);
    const auto high = parse_integer(last);
    const bool padded = first.size() > 1 && first.front() == '0';
    return low && high && *low <= *number && *number <= *high && (!padded || digits.size() == first.size());
  });
}

/// Whether one host, perhaps with brackets, is this one.
bool piece_is(std::string_view piece, std::string_view host) {
  const std::size_t open = piece.find('[');
  if (open == std::string_view::npos) return piece == host;
  const std::size_t close = piece.find(']', open);
  if (close == std::string_view::npos || !host.starts_with(piece.substr(0, open))) return false;
  const std::string_view rest = host.substr(open);
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  return range_has(piece.substr(open + 1, close - open - 1), digits) &&
         piece_is(piece.substr(close + 1), rest.substr(digits.size()));
}

/// How many "/dev/nvidia[0-3,5]" names; 1 for a plain path.
std::int64_t files_in(std::string_view files) {
  constexpr std::int64_t kMost = 4096;
  std::int64_t count = 0;
  for (const auto piece : outer_pieces(files)) {
    const std::size_t open = piece.find('[');
    if (open == std::string_view::npos) {
      ++count;
      continue;
    }
    for (const auto range : split(piece.substr(open + 1, piece.find(']', open) - open - 1), ',')) {
      const auto low = parse_integer(range.substr(0, range.find('-')));
      const auto high = range.contains('-') ? parse_integer(range.substr(range.find('-') + 1)) : low;
      if (low && high && *low >= 0 && *high >= *low && *high < kMost) count += *high - *low + 1;
    }
  }
  return std::min(count, kMost);
}

}  // namespace

bool host_list_has(std::string_view list, std::string_view host) {
  if (host.empty()) return false;
  return std::ranges::any_of(outer_pieces(list), [&](std::string_view piece) { return piece_is(trim(piece), host); });
}

std::vector<std::string> gres_in_slurm_conf(std::string_view text, std::string_view host) {
  std::vector<std::string> gres;
  for (const std::string& line : logical_lines(text)) {
    const auto settings = settings_of(line);
    if (!host_list_has(value_of(settings, "nodename"), host)) continue;
    const std::string listed = value_of(settings, "gres");
    for (const auto piece : split(listed, ',')) {
      // "gpu:a100:4(S:0-1)": the sockets in brackets are the scheduler's.
      const std::string_view plain = piece.substr(0, piece.find('('));
      if (!plain.empty()) gres.emplace_back(plain);
    }
  }
  return gres;
}

std::vector<std::string> gres_in_gres_conf(std::string_view text, std::string_view host) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& line : logical_lines(text)) {
    const auto settings = settings_of(line);
    const std::string nodes = value_of(settings, "nodename");
    const std::string name = value_of(settings, "name");
    if (name.empty() || (!nodes.empty() && !host_list_has(nodes, host))) continue;
    const std::string type = value_of(settings, "type");
    const std::int64_t said = parse_integer(value_of(settings, "count")).value_or(0);
    const std::string files = value_of(settings, settings.contains("multiplefiles") ? "multiplefiles" : "file");
    const std::int64_t count = said > 0 && said < 4096 ? said : std::max<std::int64_t>(1, files_in(files));
    counts[type.empty() ? name : fmt::format("{}:{}", name, type)] += count;
  }
  std::vector<std::string> gres;
  for (const auto& [name, count] : counts) gres.push_back(fmt::format("{}:{}", name, count));
  return gres;
}

std::string slurm_value(std::string_view text, std::string_view key) {
  for (const std::string& line : logical_lines(text)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    if (to_lower(trim(std::string_view(line).substr(0, equals))) == to_lower(key))
      return printable(trim(std::string_view(line).substr(equals + 1)));
  }
  return "";
}

}  // namespace gpuwarden::probe
