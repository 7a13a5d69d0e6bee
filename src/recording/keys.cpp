// SPDX-License-Identifier: Apache-2.0
#include "recording/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::recording {
namespace {

using Json = nlohmann::json;

/// What every figure is below: an exabyte of memory.
constexpr double kLargest = 1e18;
/// Times are kept in nanoseconds, which end in the year 2262.
constexpr double kLongestSeconds = 1e9;
constexpr unsigned kFirstYear = 1970;
constexpr unsigned kLastYear = 2200;

}  // namespace

std::optional<telemetry::WallTime> time_from_utc(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto part = [&](std::size_t at, std::size_t count) {
    return static_cast<unsigned>(parse_integer(text.substr(at, count)).value_or(0));
  };
  using namespace std::chrono;
  const year_month_day day{year(static_cast<int>(part(0, 4))), month(part(5, 2)), std::chrono::day(part(8, 2))};
  if (!day.ok() || part(0, 4) < kFirstYear || part(0, 4) > kLastYear) return std::nullopt;
  if (part(11, 2) > 23 || part(14, 2) > 59 || part(17, 2) > 60) return std::nullopt;
  return sys_days(day) + hours(part(11, 2)) + minutes(part(14, 2)) + seconds(part(17, 2));
}

Keys::Keys(const Json& json, std::optional<Error>& error) : json_(&json), error_(&error) {
  if (!json.is_object()) complain("the document", "an object");
}

const Json* Keys::find(std::string_view key) const {
  if (!json_->is_object()) return nullptr;
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

void Keys::complain(std::string_view key, std::string_view wanted) const {
  if (!*error_) *error_ = Error{ErrorCode::corrupt, fmt::format("JSON: '{}' should be {}", key, wanted), ""};
}

std::string Keys::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  complain(key, "a text");
  return {};
}

std::vector<std::string> Keys::texts(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool right = value->is_array() && std::ranges::all_of(*value, [](const Json& one) { return one.is_string(); });
  if (right) return value->get<std::vector<std::string>>();
  complain(key, "a list of texts");
  return {};
}

std::optional<double> Keys::number_of(std::string_view key, const Json& value) const {
  if (value.is_number() && std::abs(value.get<double>()) <= kLargest) return value.get<double>();
  complain(key, "a number");
  return std::nullopt;
}

std::optional<double> Keys::number(std::string_view key) const {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : number_of(key, *value);
}

std::vector<double> Keys::numbers(std::string_view key) const {
  std::vector<double> all;
  const Json* value = find(key);
  if (value == nullptr) return all;
  if (!value->is_array()) complain(key, "a list of numbers");
  for (const Json& one : *value) {
    if (const auto number = number_of(key, one)) all.push_back(*number);
  }
  return all;
}

unsigned Keys::count(std::string_view key) const {
  return static_cast<unsigned>(std::clamp(number(key).value_or(0), 0.0, 4e9));
}

std::optional<Bytes> Keys::bytes(std::string_view key) const {
  const auto value = number(key);
  if (!value) return std::nullopt;
  return Bytes(static_cast<std::uint64_t>(std::max(0.0, *value)));
}

bool Keys::flag(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) complain(key, "true or false");
  return value->is_boolean() && value->get<bool>();
}

std::chrono::milliseconds Keys::duration(std::string_view key) const {
  const double seconds = std::clamp(number(key).value_or(0), 0.0, kLongestSeconds);
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

telemetry::WallTime Keys::time(std::string_view key) const {
  const std::string value = text(key);
  if (value.empty()) return {};
  const auto time = time_from_utc(value);
  if (!time) complain(key, "a time like 2026-11-20T14:03:07Z");
  return time.value_or(telemetry::WallTime{});
}

std::optional<Keys> Keys::object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return Keys(*value, *error_);
  complain(key, "an object");
  return std::nullopt;
}

std::vector<Keys> Keys::objects(std::string_view key) const {
  std::vector<Keys> all;
  const Json* value = find(key);
  if (value == nullptr) return all;
  if (!value->is_array()) complain(key, "a list");
  for (const Json& one : *value) all.emplace_back(one, *error_);
  return all;
}

}  // namespace gpuwarden::recording
