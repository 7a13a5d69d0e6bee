// SPDX-License-Identifier: Apache-2.0
// Configurations as tables: a key is a row with its range, and reading, writing and the messages follow from it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::manager {

/// A key of a configuration: `read` is false for a value that is out of `range`.
template <class Config>
struct ConfigRow {
  std::string_view name;
  std::string_view range;
  bool (*read)(const nlohmann::json& value, Config& config);
  nlohmann::json (*write)(const Config& config);
};

/// Both ends included, but for `low` where `above` is set.
struct NumberRange {
  double low = 0;
  double high = 0;
  bool above = false;

  constexpr bool holds(double value) const { return (above ? value > low : value >= low) && value <= high; }
};

inline constexpr NumberRange kShare{0, 1, true};

template <class Config, auto Member>
ConfigRow<Config> flag_row(std::string_view name) {
  return {name, "true or false",
          [](const nlohmann::json& value, Config& config) {
            if (!value.is_boolean()) return false;
            config.*Member = value.template get<bool>();
            return true;
          },
          [](const Config& config) { return nlohmann::json(config.*Member); }};
}

/// An enumeration whose names are read by `From` and written by to_string().
template <class Config, auto Member, auto From>
ConfigRow<Config> name_row(std::string_view name, std::string_view range) {
  return {name, range,
          [](const nlohmann::json& value, Config& config) {
            const auto known = value.is_string() ? From(to_lower(value.template get<std::string>())) : std::nullopt;
            if (known) config.*Member = *known;
            return known.has_value();
          },
          [](const Config& config) { return nlohmann::json(to_string(config.*Member)); }};
}

/// A number; the member may be optional.
template <class Config, auto Member, NumberRange Range>
ConfigRow<Config> number_row(std::string_view name, std::string_view range) {
  return {name, range,
          [](const nlohmann::json& value, Config& config) {
            if (!value.is_number() || !Range.holds(value.template get<double>())) return false;
            config.*Member = value.template get<double>();
            return true;
          },
          [](const Config& config) { return nlohmann::json(config.*Member); }};
}

/// A whole number.
template <class Config, auto Member, NumberRange Range>
ConfigRow<Config> count_row(std::string_view name, std::string_view range) {
  return {name, range,
          [](const nlohmann::json& value, Config& config) {
            if (!value.is_number_integer() || !Range.holds(value.template get<double>())) return false;
            config.*Member = value.template get<unsigned>();
            return true;
          },
          [](const Config& config) { return nlohmann::json(config.*Member); }};
}

/// Milliseconds that are written in seconds.
template <class Config, auto Member, NumberRange Range>
ConfigRow<Config> seconds_row(std::string_view name, std::string_view range) {
  return {name, range,
          [](const nlohmann::json& value, Config& config) {
            if (!value.is_number() || !Range.holds(value.template get<double>())) return false;
            config.*Member = std::chrono::milliseconds(static_cast<std::int64_t>(value.template get<double>() * 1000));
            return true;
          },
          [](const Config& config) { return nlohmann::json(static_cast<double>((config.*Member).count()) / 1000); }};
}

/// Bytes; the member is optional.
template <class Config, auto Member, NumberRange Range>
ConfigRow<Config> bytes_row(std::string_view name, std::string_view range) {
  return {name, range,
          [](const nlohmann::json& value, Config& config) {
            if (!value.is_number_integer() || !Range.holds(value.template get<double>())) return false;
            config.*Member = Bytes(value.template get<std::uint64_t>());
            return true;
          },
          [](const Config& config) {
            return (config.*Member) ? nlohmann::json((config.*Member)->value) : nlohmann::json();
          }};
}

/// Indices of GPUs, each once; the member is optional.
template <class Config, auto Member>
ConfigRow<Config> indices_row(std::string_view name) {
  return {name, "a list of GPU indices (0 to 1023), each once",
          [](const nlohmann::json& value, Config& config) {
            std::vector<std::uint32_t> indices;
            if (!value.is_array() || value.empty()) return false;
            for (const auto& one : value) {
              if (!one.is_number_integer() || one.template get<double>() < 0 || one.template get<double>() > 1023)
                return false;
              const auto index = one.template get<std::uint32_t>();
              if (std::ranges::find(indices, index) != indices.end()) return false;
              indices.push_back(index);
            }
            config.*Member = std::move(indices);
            return true;
          },
          [](const Config& config) { return (config.*Member) ? nlohmann::json(*(config.*Member)) : nlohmann::json(); }};
}

/// Fails with invalid_argument for what is no object, an unknown key, and a value out of its range.
template <class Config>
Result<Config> read_config(const nlohmann::json& json, const std::vector<ConfigRow<Config>>& rows) {
  if (!json.is_object())
    return fail(ErrorCode::invalid_argument, "the configuration is not an object", "give keys and values");
  Config config;
  for (const auto& [key, value] : json.items()) {
    const auto row = std::ranges::find(rows, key, &ConfigRow<Config>::name);
    if (row == rows.end()) {
      std::vector<std::string> names;
      for (const auto& known : rows) names.emplace_back(known.name);
      const std::string closest = closest_match(key, names);
      return fail(ErrorCode::invalid_argument, fmt::format("unknown configuration key '{}'", printable(key)),
                  closest.empty() ? "known keys: " + join(names, ", ") : fmt::format("did you mean '{}'?", closest));
    }
    if (value.is_null()) continue;
    if (!row->read(value, config))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: {} is not valid", row->name,
                              printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))),
                  fmt::format("{} must be {}", row->name, row->range));
  }
  return config;
}

template <class Config>
nlohmann::json write_config(const Config& config, const std::vector<ConfigRow<Config>>& rows) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& row : rows) json[std::string(row.name)] = row.write(config);
  return json;
}

}  // namespace gpuwarden::manager
