// SPDX-License-Identifier: Apache-2.0
#include "knowledge/overlay_fields.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/yaml/document.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr std::size_t kLongestText = 4096;

bool is_present(const YAML::Node& node) { return node.IsDefined() && !node.IsNull(); }

bool is_month(std::string_view text) {
  if (text.size() != 7 || text[4] != '-') return false;
  const auto year = parse_integer(text.substr(0, 4));
  const auto month = parse_integer(text.substr(5));
  return year && month && *year >= 2005 && *year < 2100 && *month >= 1 && *month <= 12;
}

}  // namespace

YAML::Node OverlayFields::node(const char* key) const { return yaml::child(map_, key); }

bool OverlayFields::has(const char* key) const { return is_present(node(key)); }

void OverlayFields::known(const std::vector<std::string>& keys) {
  if (error_) return;
  if (auto checked = yaml::check_keys(map_, file_.name, where_, keys); !checked) error_ = checked.error();
}

void OverlayFields::needs(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (error_ || has(key.c_str())) continue;
    error_ = yaml::error_at(map_, file_.name, fmt::format("{}: '{}' is missing", where_, key),
                            "a row that is not built in needs " + join(keys, ", "));
  }
}

void OverlayFields::complain(const char* key, const std::string& what, std::string hint) {
  if (error_) return;
  const YAML::Node at = node(key);
  error_ = yaml::error_at(is_present(at) ? at : map_, file_.name, fmt::format("{}.{} {}", where_, key, what),
                          std::move(hint));
}

void OverlayFields::wrong(const char* key, const std::string& wanted) { complain(key, "should be " + wanted); }

std::string_view OverlayFields::keep(std::string text) { return file_.texts.emplace_back(std::move(text)); }

std::optional<std::string> OverlayFields::scalar(const char* key) {
  const YAML::Node at = node(key);
  if (!is_present(at)) return std::nullopt;
  if (!at.IsScalar() || at.Scalar().size() > kLongestText || printable(at.Scalar()) != at.Scalar()) {
    wrong(key, "a plain text");
    return std::nullopt;
  }
  return at.Scalar();
}

void OverlayFields::text(const char* key, std::string_view& value) {
  if (auto given = scalar(key)) value = keep(std::move(*given));
}

void OverlayFields::choice(const char* key, std::string_view& value, const std::vector<std::string>& options) {
  auto given = scalar(key);
  if (!given) return;
  if (std::ranges::find(options, *given) == options.end()) return wrong(key, "one of " + join(options, ", "));
  value = keep(std::move(*given));
}

void OverlayFields::version(const char* key, Version& value) {
  const auto given = scalar(key);
  if (!given) return;
  const auto parsed = Version::parse(*given);
  const bool whole = given->find_first_not_of("0123456789.") == std::string::npos && !given->ends_with('.') &&
                     std::ranges::count(*given, '.') < 4 && !given->contains("..");
  if (!parsed || !*parsed || !whole) return wrong(key, "a version such as 550.54.15");
  value = *parsed;
}

void OverlayFields::month(const char* key, std::string_view& value, bool or_past) {
  auto given = scalar(key);
  if (!given) return;
  if (!is_month(*given) && !(or_past && *given == "past"))
    return wrong(key, or_past ? "a month such as 2026-11, or past" : "a month such as 2026-11");
  value = keep(std::move(*given));
}

void OverlayFields::integer(const char* key, int& value, int low, int high) {
  const auto given = scalar(key);
  if (!given) return;
  const auto parsed = parse_integer(*given);
  if (!parsed || *parsed < low || *parsed > high)
    return wrong(key, fmt::format("a whole number from {} to {}", low, high));
  value = static_cast<int>(*parsed);
}

void OverlayFields::number(const char* key, std::optional<double>& value, double low, double high) {
  const auto given = scalar(key);
  if (!given) return;
  const auto parsed = parse_number(*given);
  if (!parsed || *parsed < low || *parsed > high) return wrong(key, fmt::format("a number from {} to {}", low, high));
  value = parsed;
}

void OverlayFields::number(const char* key, double& value, double low, double high) {
  std::optional<double> given;
  number(key, given, low, high);
  value = given.value_or(value);
}

void OverlayFields::flag(const char* key, bool& value) {
  const auto given = scalar(key);
  if (!given) return;
  if (*given != "true" && *given != "false") return wrong(key, "true or false");
  value = *given == "true";
}

void OverlayFields::capability(const char* key, int& value) {
  const auto given = scalar(key);
  if (!given) return;
  const auto parts = split(*given, '.');
  const auto major = parse_integer(parts[0]);
  const auto minor = parts.size() == 2 ? parse_integer(parts[1]) : std::nullopt;
  if (!major || !minor || *major < 2 || *major > 99 || *minor < 0 || *minor > 9)
    return wrong(key, "a compute capability such as 9.0");
  value = static_cast<int>(*major * 10 + *minor);
}

void OverlayFields::joined(const char* key, std::string_view& value) {
  const YAML::Node at = node(key);
  if (!is_present(at)) return;
  if (!at.IsSequence()) return text(key, value);
  std::vector<std::string> parts;
  for (const auto& entry : at) {
    if (!entry.IsScalar() || entry.Scalar().empty() || printable(entry.Scalar()) != entry.Scalar())
      return wrong(key, "a list of plain values");
    parts.push_back(entry.Scalar());
  }
  value = keep(join(parts, ";"));
}

}  // namespace gpuwarden::knowledge
