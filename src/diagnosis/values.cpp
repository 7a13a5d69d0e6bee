// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::diagnosis {
namespace {

enum class Kind { size, number, numbers, word };

Kind kind_of(std::string_view key) {
  static constexpr auto kLists = std::to_array<std::string_view>({"xid", "sxid", "ranks"});
  static constexpr auto kNumbers = std::to_array<std::string_view>(
      {"gpu", "pid", "rank", "port", "cuda_code", "job", "seq", "joined", "expected", "ib_status", "vendor_err",
       "required", "limit", "driver_cuda", "ecc_volatile", "link", "signal", "exit_code", "count"});
  if (key.ends_with("_bytes")) return Kind::size;
  if (std::ranges::find(kLists, key) != kLists.end()) return Kind::numbers;
  if (key.ends_with("_ms") || key.ends_with("_kb") || key.ends_with("_len") || key.ends_with("_tokens") ||
      std::ranges::find(kNumbers, key) != kNumbers.end())
    return Kind::number;
  return Kind::word;
}

std::string without_separators(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ',' && c != '_') digits += c;
  }
  return digits;
}

void add_number(Facts& facts, const std::string& key, std::int64_t value) {
  auto& fact = facts.try_emplace(key, std::vector<std::int64_t>{}).first->second;
  auto* list = std::get_if<std::vector<std::int64_t>>(&fact);
  constexpr std::size_t kMost = 64;
  if (list != nullptr && list->size() < kMost && std::ranges::find(*list, value) == list->end()) list->push_back(value);
}

/// "600000", "600000ms", "60s", "10 minutes" in milliseconds; a number alone is in milliseconds already.
std::optional<std::int64_t> milliseconds_in_log(std::string_view text) {
  const std::string digits = without_separators(text);
  const std::string_view all = trim(digits);
  const std::size_t end = std::min(all.find_first_not_of("0123456789."), all.size());
  const auto amount = parse_number(all.substr(0, end));
  const std::string unit = to_lower(trim(all.substr(end)));
  if (!amount || *amount < 0 || *amount > 1e12) return std::nullopt;
  double factor = 1;
  if (unit.starts_with('s')) factor = 1000;
  if (unit == "m" || unit.starts_with("min")) factor = 60'000;
  if (unit.starts_with('h')) factor = 3'600'000;
  return static_cast<std::int64_t>(*amount * factor);
}

}  // namespace

std::optional<std::int64_t> size_in_log(std::string_view text) {
  const std::string digits = without_separators(text);
  const std::string_view all = trim(digits);
  const std::size_t end = std::min(all.find_first_not_of("0123456789."), all.size());
  const auto amount = parse_number(all.substr(0, end));
  if (!amount || *amount < 0) return std::nullopt;
  const std::string unit = to_lower(trim(all.substr(end)));
  double factor = 1;
  if (unit.starts_with('k')) factor = 1024.0;
  if (unit.starts_with('m')) factor = 1024.0 * 1024;
  if (unit.starts_with('g')) factor = 1024.0 * 1024 * 1024;
  if (unit.starts_with('t')) factor = 1024.0 * 1024 * 1024 * 1024;
  const double bytes = std::floor(*amount * factor);
  return bytes < 9e18 ? std::optional(static_cast<std::int64_t>(bytes)) : std::nullopt;
}

void add_fact(Facts& facts, const std::string& key, std::string_view value) {
  const Kind kind = kind_of(key);
  if (kind != Kind::numbers && facts.contains(key)) return;
  if (kind == Kind::word) {
    if (!trim(value).empty()) facts[key] = printable(trim(value));
    return;
  }
  if (kind == Kind::size) {
    if (const auto bytes = size_in_log(value)) facts[key] = *bytes;
    return;
  }
  if (key.ends_with("_ms")) {
    if (const auto time = milliseconds_in_log(value)) facts[key] = *time;
    return;
  }
  const auto parsed = parse_integer(without_separators(trim(value)));
  if (!parsed) return;
  if (kind == Kind::numbers) {
    add_number(facts, key, *parsed);
  } else {
    facts[key] = *parsed;
  }
}

void add_json_fact(Facts& facts, const std::string& key, std::string_view json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  if (value.is_number_integer()) {
    add_fact(facts, key, std::to_string(value.get<std::int64_t>()));
  } else if (value.is_string()) {
    add_fact(facts, key, value.get<std::string>());
  } else if (value.is_array()) {
    for (const auto& item : value) {
      if (item.is_number_integer()) add_fact(facts, key, std::to_string(item.get<std::int64_t>()));
    }
  }
}

void add_process(Facts& facts, std::int64_t pid, std::int64_t bytes) {
  auto& fact = facts.try_emplace("processes", std::vector<ProcessMemory>{}).first->second;
  auto* list = std::get_if<std::vector<ProcessMemory>>(&fact);
  constexpr std::size_t kMost = 64;
  if (list != nullptr && list->size() < kMost && std::ranges::find(*list, pid, &ProcessMemory::pid) == list->end())
    list->push_back({pid, bytes});
}

void merge_facts(Facts& facts, const Facts& more) {
  for (const auto& [key, fact] : more) {
    const auto* numbers = std::get_if<std::vector<std::int64_t>>(&fact);
    if (numbers == nullptr) {
      facts.try_emplace(key, fact);
      continue;
    }
    for (const std::int64_t value : *numbers) add_number(facts, key, value);
  }
}

std::string shown(const std::string& key, const Fact& fact) {
  if (const auto* text = std::get_if<std::string>(&fact)) return *text;
  if (const auto* value = std::get_if<std::int64_t>(&fact)) {
    // As cuDriverGetVersion counts: thousands are the major, tens the minor version.
    if (key == "driver_cuda" && *value >= 1000) return fmt::format("{}.{}", *value / 1000, *value % 1000 / 10);
    if (key.ends_with("_bytes")) return *value < 0 ? "?" : format_size(Bytes(static_cast<std::uint64_t>(*value)));
    if (key.ends_with("_kb") && *value >= 0) return format_size(Bytes(static_cast<std::uint64_t>(*value) * 1024));
    if (key.ends_with("_ms")) return format_duration(std::chrono::milliseconds(*value));
    return std::to_string(*value);
  }
  std::vector<std::string> parts;
  if (const auto* values = std::get_if<std::vector<std::int64_t>>(&fact)) {
    for (const std::int64_t value : *values) parts.push_back(std::to_string(value));
  }
  if (const auto* processes = std::get_if<std::vector<ProcessMemory>>(&fact)) {
    for (const ProcessMemory& process : *processes)
      parts.push_back(fmt::format("{} ({})", process.pid, shown("process_bytes", process.bytes)));
  }
  return join(parts, ", ");
}

std::optional<std::int64_t> number(const Facts& facts, const std::string& key) {
  const auto found = facts.find(key);
  if (found == facts.end()) return std::nullopt;
  if (const auto* value = std::get_if<std::int64_t>(&found->second)) return *value;
  const auto* values = std::get_if<std::vector<std::int64_t>>(&found->second);
  return values != nullptr && !values->empty() ? std::optional(values->front()) : std::nullopt;
}

std::optional<std::string> word(const Facts& facts, const std::string& key) {
  const auto found = facts.find(key);
  if (found == facts.end()) return std::nullopt;
  const auto* value = std::get_if<std::string>(&found->second);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

}  // namespace gpuwarden::diagnosis
