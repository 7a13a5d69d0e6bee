// SPDX-License-Identifier: Apache-2.0
#include "planning/config_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

/// The value as it stands in the file, short enough for a sentence.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 40;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return value.is_string() ? "the text " + text : text;
}

/// A whole number; whole numbers written as 4096.0 count.
std::optional<std::uint64_t> whole(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!(number >= 0) || number > kExact || number != std::floor(number)) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

}  // namespace

ConfigFields::ConfigFields(const nlohmann::json& object, std::string_view file, std::string path)
    : object_(&object), file_(file), path_(std::move(path)) {}

const nlohmann::json* ConfigFields::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::has(std::string_view key) const { return find(key) != nullptr; }

void ConfigFields::complain(std::string_view key, std::string_view what, std::string hint) {
  if (error_) return;
  error_ = Error{ErrorCode::invalid_argument, fmt::format("{}: {}{} {}", file_, path_, key, what), std::move(hint)};
}

void ConfigFields::wrong(std::string_view key, const nlohmann::json& value, std::string_view expected) {
  complain(key, fmt::format("is {}, {} was expected", shown(value), expected));
}

namespace {

/// The entry of a list whose entries are all the same (Gemma 3n's intermediate_size, one for each layer); else the
/// value.
const nlohmann::json* single(const nlohmann::json* value) {
  if (!value->is_array() || value->size() < 2) return value;
  const bool same = std::ranges::all_of(*value, [&](const nlohmann::json& each) { return each == value->front(); });
  return same ? &value->front() : value;
}

}  // namespace

std::optional<std::uint64_t> ConfigFields::number(Keys keys, std::uint64_t low, std::uint64_t high) {
  for (const std::string_view key : keys) {
    const nlohmann::json* const value = find(key);
    if (value == nullptr) continue;
    const auto parsed = whole(*single(value));
    if (parsed && *parsed >= low && *parsed <= high) return parsed;
    wrong(key, *value, fmt::format("a whole number from {} to {}", low, high));
    return std::nullopt;
  }
  return std::nullopt;
}

void ConfigFields::take(std::uint32_t& value, Keys keys, std::uint64_t low, std::uint64_t high) {
  if (const auto found = number(keys, low, high)) value = static_cast<std::uint32_t>(*found);
}

std::optional<double> ConfigFields::decimal(Keys keys, double low, double high) {
  for (const std::string_view key : keys) {
    const nlohmann::json* const value = find(key);
    if (value == nullptr) continue;
    const double number = value->is_number() ? value->get<double>() : low - 1;
    if (number >= low && number <= high) return number;
    wrong(key, *value, fmt::format("a number from {} to {}", low, high));
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<bool> ConfigFields::flag(Keys keys) {
  for (const std::string_view key : keys) {
    const nlohmann::json* const value = find(key);
    if (value == nullptr) continue;
    if (value->is_boolean()) return value->get<bool>();
    wrong(key, *value, "true or false");
    return std::nullopt;
  }
  return std::nullopt;
}

void ConfigFields::take(bool& value, Keys keys) { value = flag(keys).value_or(value); }

std::optional<std::string> ConfigFields::text(Keys keys) {
  for (const std::string_view key : keys) {
    const nlohmann::json* const value = find(key);
    if (value == nullptr) continue;
    if (value->is_string()) return value->get<std::string>();
    wrong(key, *value, "a text");
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::size_t> ConfigFields::list_size(std::string_view key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr || !value->is_structured()) return std::nullopt;
  return value->size();
}

std::optional<std::size_t> ConfigFields::list_count(std::string_view key, std::string_view entry) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr || !value->is_array()) return std::nullopt;
  return static_cast<std::size_t>(std::ranges::count_if(*value, [&](const nlohmann::json& each) {
    return each.is_string() && each.get_ref<const std::string&>() == entry;
  }));
}

std::vector<std::string> ConfigFields::list_texts(std::string_view key) const {
  std::vector<std::string> texts;
  const nlohmann::json* const value = find(key);
  if (value == nullptr || !value->is_array()) return texts;
  for (const nlohmann::json& each : *value) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

std::optional<ConfigFields> ConfigFields::inside(std::string_view key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr || !value->is_object()) return std::nullopt;
  return ConfigFields(*value, file_, fmt::format("{}{}.", path_, key));
}

std::optional<ConfigFields> ConfigFields::first_inside() const {
  for (const auto& [key, value] : object_->items()) {
    if (value.is_object()) return ConfigFields(value, file_, fmt::format("{}{}.", path_, printable(key)));
  }
  return std::nullopt;
}

bool ConfigFields::is_true(std::string_view key) const {
  const nlohmann::json* const value = find(key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

}  // namespace gpuwarden::planning
