// SPDX-License-Identifier: Apache-2.0
// Typed values of one JSON object. Keeps the first error, which names the file, the key and what was expected there.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::planning {

using Keys = std::initializer_list<std::string_view>;

class ConfigFields {
 public:
  /// `object` must be a JSON object and outlive this; `path` stands before its keys in errors ("text_config.").
  ConfigFields(const nlohmann::json& object, std::string_view file, std::string path);

  /// The first of the keys that is there and not null, as a whole number within low..high.
  std::optional<std::uint64_t> number(Keys keys, std::uint64_t low, std::uint64_t high);
  /// Sets `value` where one of the keys is there.
  void take(std::uint32_t& value, Keys keys, std::uint64_t low, std::uint64_t high);
  std::optional<double> decimal(Keys keys, double low, double high);
  std::optional<bool> flag(Keys keys);
  void take(bool& value, Keys keys);
  std::optional<std::string> text(Keys keys);
  /// Entries of a list or object; nothing where it is neither.
  std::optional<std::size_t> list_size(std::string_view key) const;
  /// How often `entry` is in a list of texts.
  std::optional<std::size_t> list_count(std::string_view key, std::string_view entry) const;
  /// The texts of a list; none where it is no list.
  std::vector<std::string> list_texts(std::string_view key) const;
  bool has(std::string_view key) const;
  /// The fields of a nested object, or nothing.
  std::optional<ConfigFields> inside(std::string_view key) const;
  /// Those of the first object among the values, by the keys' order; nothing where none is one.
  std::optional<ConfigFields> first_inside() const;
  /// Whether the value is there, and true; no error where it is something else.
  bool is_true(std::string_view key) const;

  void complain(std::string_view key, std::string_view what, std::string hint = {});
  /// Takes over the error of an object inside.
  void absorb(const ConfigFields& inner) {
    if (!error_) error_ = inner.error_;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const nlohmann::json* find(std::string_view key) const;
  void wrong(std::string_view key, const nlohmann::json& value, std::string_view expected);

  const nlohmann::json* object_;
  std::string file_;
  std::string path_;
  std::optional<Error> error_;
};

}  // namespace gpuwarden::planning
