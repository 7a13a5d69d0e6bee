// SPDX-License-Identifier: Apache-2.0
// As much of JSON Schema as the API's description uses: type, required, properties, additionalProperties, items, enum,
// anyOf, minItems, maxItems and $ref. A keyword that it does not know is an error, so that none is left out in silence.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace gpuwarden::testing {

inline bool has_type(const nlohmann::json& value, const std::string& type) {
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  return type == (value.is_null() ? "null" : value.is_boolean() ? "boolean" : value.type_name());
}

/// What of `value` is not as the schema says, each with its place.
inline std::vector<std::string> schema_errors(const nlohmann::json& schema, const nlohmann::json& value,
                                              const nlohmann::json& named, const std::string& place = "$") {
  std::vector<std::string> errors;
  const auto look = [&](const nlohmann::json& part, const nlohmann::json& at, const std::string& where) {
    const auto more = schema_errors(part, at, named, where);
    errors.insert(errors.end(), more.begin(), more.end());
  };
  for (const auto& [keyword, argument] : schema.items()) {
    if (keyword == "$ref") {
      const std::string name = argument.get<std::string>().substr(sizeof("#/components/schemas/") - 1);
      look(named.at(name), value, place);
    } else if (keyword == "type") {
      const auto types = argument.is_array() ? argument.get<std::vector<std::string>>()
                                             : std::vector<std::string>{argument.get<std::string>()};
      bool fits = false;
      for (const std::string& type : types) fits = fits || has_type(value, type);
      if (!fits) errors.push_back(place + " is not " + argument.dump() + ": " + value.dump().substr(0, 60));
    } else if (keyword == "required") {
      for (const auto& key : argument) {
        if (value.is_object() && !value.contains(key.get<std::string>()))
          errors.push_back(place + " lacks " + key.dump());
      }
    } else if (keyword == "properties") {
      for (const auto& [key, part] : argument.items()) {
        if (value.is_object() && value.contains(key)) look(part, value[key], place + "." + key);
      }
    } else if (keyword == "additionalProperties") {
      for (const auto& [key, member] : value.items()) look(argument, member, place + "." + key);
    } else if (keyword == "items") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i)
        look(argument, value[i], place + "[" + std::to_string(i) + "]");
    } else if (keyword == "enum") {
      bool found = false;
      for (const auto& allowed : argument) found = found || allowed == value;
      if (!found) errors.push_back(place + " is none of " + argument.dump());
    } else if (keyword == "anyOf") {
      bool fits = false;
      for (const auto& part : argument) fits = fits || schema_errors(part, value, named, place).empty();
      if (!fits) errors.push_back(place + " fits none of anyOf");
    } else if (keyword == "minItems" || keyword == "maxItems") {
      const bool fits = keyword == "minItems" ? value.size() >= argument.get<std::size_t>()
                                              : value.size() <= argument.get<std::size_t>();
      if (!fits) errors.push_back(place + " has " + std::to_string(value.size()) + " items");
    } else {
      errors.push_back(place + ": unknown keyword " + keyword);
    }
  }
  return errors;
}

}  // namespace gpuwarden::testing
