// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/text.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace gpuwarden {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
char lower(char c) { return (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c; }
char upper(char c) { return (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c; }

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Levenshtein's distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0U : 1U);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The byte count of a UTF-8 sequence that is valid at the start of `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  std::size_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  // C1 controls (U+0080..U+009F) move the cursor on some terminals.
  if (lead == 0xC2 && byte(1) < 0xA0) return 0;
  return length;
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const auto end = std::find_if(text.begin(), text.end(), is_space);
    const auto length = static_cast<std::size_t>(end - text.begin());
    words.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

std::string to_lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

std::string to_upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), upper);
  return result;
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  return to_lower(text).find(to_lower(part)) != std::string::npos;
}

std::string spaced(std::string_view name, char joint) {
  std::string words(name);
  std::ranges::replace(words, '_', joint);
  return words;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

std::string closest_match(std::string_view word, const std::vector<std::string>& options) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::size_t best_start = 0;
  for (const std::string& option : options) {
    const std::size_t distance = edit_distance(word, option);
    // Of equals the one that begins alike: beginnings are seldom mistyped.
    const auto start = static_cast<std::size_t>(std::ranges::mismatch(word, option).in1 - word.begin());
    if (distance > best_distance || (distance == best_distance && (best.empty() || start <= best_start))) continue;
    best_distance = distance;
    best_start = start;
    best = option;
  }
  return best;
}

std::optional<std::int64_t> parse_integer(std::string_view text) { return parse_whole<std::int64_t>(text); }

std::optional<double> parse_number(std::string_view text) {
  const auto number = parse_whole<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

Result<Bytes> parse_size(std::string_view text) {
  struct Unit {
    std::string_view name;
    double factor;
  };
  static constexpr double k10 = 1000;
  static constexpr double k2 = 1024;
  static constexpr std::array<Unit, 14> kUnits{{{"", 1},
                                                {"b", 1},
                                                {"k", k2},
                                                {"kib", k2},
                                                {"kb", k10},
                                                {"m", k2 * k2},
                                                {"mib", k2 * k2},
                                                {"mb", k10 * k10},
                                                {"g", k2 * k2 * k2},
                                                {"gib", k2 * k2 * k2},
                                                {"gb", k10 * k10 * k10},
                                                {"t", k2 * k2 * k2 * k2},
                                                {"tib", k2 * k2 * k2 * k2},
                                                {"tb", k10 * k10 * k10 * k10}}};
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a size", printable(text)),
                "write a number with a unit, for example 32GiB, 1.5GB or 512MiB");
  };
  const std::string_view whole = trim(text);
  const std::size_t digits = std::min(whole.find_first_not_of("0123456789."), whole.size());
  const auto number = parse_number(whole.substr(0, digits));
  const std::string unit = to_lower(trim(whole.substr(digits)));
  const auto* const found = std::ranges::find(kUnits, unit, &Unit::name);
  if (!number || found == kUnits.end()) return bad();
  const double bytes = *number * found->factor;
  if (bytes >= 9223372036854775808.0) return bad();
  return Bytes(static_cast<std::uint64_t>(std::llround(bytes)));
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double milliseconds;
  };
  static constexpr std::array<Unit, 7> kUnits{
      {{"ms", 1}, {"s", 1e3}, {"sec", 1e3}, {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}}};
  static constexpr double kTenYears = 3650 * 86400e3;
  double total = 0;
  std::string_view rest = trim(text);
  bool valid = !rest.empty();
  while (valid && !rest.empty()) {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789."), rest.size());
    const auto number = parse_number(rest.substr(0, digits));
    rest.remove_prefix(digits);
    const std::size_t letters = std::min(rest.find_first_of("0123456789."), rest.size());
    const std::string unit = letters == 0 ? "s" : to_lower(trim(rest.substr(0, letters)));
    rest.remove_prefix(letters);
    const auto* const found = std::ranges::find(kUnits, unit, &Unit::name);
    valid = number && found != kUnits.end();
    if (valid) total += *number * found->milliseconds;
    valid = valid && total <= kTenYears;
  }
  if (valid) return std::chrono::milliseconds(std::llround(total));
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a duration", printable(text)),
              "write a number with a unit, for example 30s, 5m or 1h30m");
}

std::string format_size(Bytes bytes) {
  static constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes.value);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value >= 99.95 || std::abs(value - std::round(value)) < 0.05;
  return whole ? fmt::format("{:.0f} {}", value, kUnits[unit]) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_duration(std::chrono::milliseconds duration) {
  const auto ms = duration.count();
  if (ms < 1000) return fmt::format("{} ms", ms);
  const auto s = ms / 1000;
  if (s < 10) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
  return fmt::format("{} d {} h", s / 86400, s % 86400 / 3600);
}

std::string format_utc(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    std::size_t length = (c >= 0x20 && c < 0x7F) ? 1 : 0;
    if (c >= 0x80) length = utf8_length(text);
    result += length > 0 ? text.substr(0, length) : "?";
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace gpuwarden
