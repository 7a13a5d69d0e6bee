// SPDX-License-Identifier: Apache-2.0
#include "capture/cells.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

constexpr auto kGaps = std::to_array<std::string_view>(
    {"", "-", "--", "N/A", "ERR!", "ERROR", "Unknown", "Unknown Error", "Not Supported", "Not Found", "None",
     "Not Available", "Insufficient Permissions", "Requested functionality has been deprecated", "GPU is lost",
     "GPU requires reset", "Reset Required", "Insufficient Size", "Uninitialized"});

constexpr auto kYes = std::to_array<std::string_view>({"Enabled", "Yes", "On", "Active", "enabled"});
constexpr auto kNo = std::to_array<std::string_view>({"Disabled", "No", "Off", "Not Active", "disabled"});

bool is_hex(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace

bool is_gap(std::string_view cell) {
  const std::string_view text = trim(cell);
  return text.starts_with('[') || text.starts_with("N/A") || std::ranges::find(kGaps, text) != kGaps.end();
}

std::optional<std::string> text_of(std::string_view cell) {
  std::string_view text = trim(cell);
  if (is_gap(text)) return std::nullopt;
  text = trim(text.substr(0, text.find("[Deprecated")));
  if (is_gap(text) || text.starts_with("Deprecated")) return std::nullopt;
  return printable(text);
}

std::optional<double> number_of(std::string_view cell, std::string_view unit) {
  std::string_view text = trim(cell);
  if (!text.ends_with(unit)) return std::nullopt;
  text.remove_suffix(unit.size());
  text = trim(text);
  if (text.empty() || text.find_first_not_of("0123456789.-") != std::string_view::npos) return std::nullopt;
  return parse_number(text);
}

std::optional<double> number_of(std::string_view cell, std::initializer_list<std::string_view> units) {
  for (const std::string_view unit : units) {
    if (const auto number = number_of(cell, unit)) return number;
  }
  return std::nullopt;
}

std::optional<bool> flag_of(std::string_view cell) {
  const std::string_view text = trim(cell);
  if (std::ranges::find(kYes, text) != kYes.end()) return true;
  if (std::ranges::find(kNo, text) != kNo.end()) return false;
  return std::nullopt;
}

std::optional<Bytes> memory_of(std::string_view cell) {
  static constexpr std::array<std::pair<std::string_view, double>, 7> kUnits{{{"MiB", 1U << 20U},
                                                                              {"KiB", 1U << 10U},
                                                                              {"GiB", 1U << 30U},
                                                                              {"TiB", 1ULL << 40U},
                                                                              {"MB", 1U << 20U},
                                                                              {"", 1U << 20U},
                                                                              {"B", 1}}};
  for (const auto& [unit, scale] : kUnits) {
    std::optional<Bytes> bytes;
    put(bytes, number_of(cell, unit), scale);
    if (bytes) return bytes;
  }
  return std::nullopt;
}

std::optional<std::string> bus_id_of(std::string_view cell) {
  std::string text = to_upper(trim(cell));
  if (std::ranges::count(text, ':') == 1) text.insert(0, "00000000:");
  const auto parts = split(text, ':');
  if (parts.size() != 3 || parts[0].size() > 8 || parts[1].size() != 2 || parts[2].size() != 4) return std::nullopt;
  if (!is_hex(parts[0]) || !is_hex(parts[1]) || !is_hex(parts[2].substr(0, 2)) || parts[2][2] != '.' ||
      !is_hex(parts[2].substr(3)))
    return std::nullopt;
  return std::string(8 - parts[0].size(), '0') + text;
}

}  // namespace gpuwarden::capture
