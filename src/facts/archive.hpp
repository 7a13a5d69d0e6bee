// SPDX-License-Identifier: Apache-2.0
// One description of a record's fields serves both directions: a Writer fills JSON, a Reader fills the record.
#pragma once

#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::facts {

using Json = nlohmann::json;

template <class T>
inline constexpr bool kIsQuantity = false;
template <class Tag, class Rep>
inline constexpr bool kIsQuantity<Quantity<Tag, Rep>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) { to_string(e); };

/// Records that describe themselves: `template <class A> void describe(A& archive, T& record)`.
template <class T, class Archive>
concept Described = requires(Archive& archive, T& record) { describe(archive, record); };

class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(Json& json) : json_(json) { json_ = Json::object(); }

  template <class T>
  void field(std::string_view path, const T& value) {
    place(path) = encode(value);
  }

  template <class T>
  static Json encode(const T& value) {
    if constexpr (std::is_same_v<T, Uuid> || std::is_same_v<T, GpuIndex> ||
                  std::is_same_v<T, Pid>) {  // NOLINT(bugprone-branch-clone)
      return value.value;
    } else if constexpr (kIsQuantity<T> && kStepsPerShownUnit<T> != 1) {
      return static_cast<double>(value.value) / kStepsPerShownUnit<T>;
    } else if constexpr (kIsQuantity<T>) {  // NOLINT(bugprone-branch-clone): other conditions stand between
      return value.value;
    } else if constexpr (NamedEnum<T>) {
      return std::string(to_string(value));
    } else if constexpr (std::is_same_v<T, std::chrono::system_clock::time_point>) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(value.time_since_epoch()).count();
    } else if constexpr (kIsVector<T>) {
      Json list = Json::array();
      for (const auto& entry : value) list.push_back(encode(entry));
      return list;
    } else if constexpr (requires { value.has_value(); }) {
      return value ? encode(*value) : Json(nullptr);
    } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
      Json object;
      Writer writer(object);
      describe(writer, const_cast<T&>(value));  // describe() takes a mutable record for the Reader's sake
      return object;
    } else {
      return value;
    }
  }

 private:
  Json& place(std::string_view path) {
    Json* at = &json_;
    for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
      at = &(*at)[std::string(path.substr(0, dot))];
      path.remove_prefix(dot + 1);
    }
    return (*at)[std::string(path)];
  }

  Json& json_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  Reader(const Json& json, std::optional<Error>& error) : json_(json), error_(error) {
    if (!json.is_object()) complain("a record", "an object");
  }

  /// Absent and null leave the field as it is.
  template <class T>
  void field(std::string_view path, T& value) {
    const Json* at = find(path);
    if (at == nullptr || at->is_null() || error_) return;
    if (!decode(*at, value)) complain(path, "another type or value");
  }

 private:
  const Json* find(std::string_view path) const {
    const Json* at = &json_;
    for (;;) {
      const std::size_t dot = path.find('.');
      if (!at->is_object()) return nullptr;
      const auto found = at->find(std::string(path.substr(0, dot)));
      if (found == at->end()) return nullptr;
      at = &*found;
      if (dot == std::string_view::npos) return at;
      path.remove_prefix(dot + 1);
    }
  }

  void complain(std::string_view what, std::string_view wanted) {
    if (!error_) {
      error_ = Error{ErrorCode::corrupt, "JSON: '" + std::string(what) + "' should be " + std::string(wanted), ""};
    }
  }

  template <class T>
  static bool decode_number(const Json& json, T& value) {
    if (!json.is_number()) return false;
    if constexpr (std::is_floating_point_v<T>) {
      value = json.get<T>();
    } else {
      if (!json.is_number_integer()) return false;
      const bool negative = !json.is_number_unsigned() && json.get<std::int64_t>() < 0;
      if (negative && !std::in_range<T>(json.get<std::int64_t>())) return false;
      if (!negative && !std::in_range<T>(json.get<std::uint64_t>())) return false;
      value = json.get<T>();
    }
    return true;
  }

  template <class T>
  static bool decode_quantity(const Json& json, T& value) {
    if constexpr (kStepsPerShownUnit<T> == 1) {
      return decode_number(json, value.value);
    } else {
      double number = 0;
      if (!decode_number(json, number) || !(std::abs(number) < 9e15)) return false;
      value.value = static_cast<typename T::rep>(std::llround(number * kStepsPerShownUnit<T>));
      return true;
    }
  }

  template <class T>
  bool decode_list(const Json& json, std::vector<T>& value) {
    if (!json.is_array()) return false;
    value.clear();
    for (const Json& entry : json) {
      if (!decode(entry, value.emplace_back())) return false;
    }
    return true;
  }

  template <class T>
  bool decode(const Json& json, T& value) {
    if constexpr (std::is_same_v<T, Uuid> || std::is_same_v<T, GpuIndex> || std::is_same_v<T, Pid>) {
      return decode(json, value.value);
    } else if constexpr (kIsQuantity<T>) {
      return decode_quantity(json, value);
    } else if constexpr (NamedEnum<T>) {
      const auto known = json.is_string() ? enum_named(json.get<std::string>(), T{}) : std::nullopt;
      if (known) value = *known;
      return known.has_value();
    } else if constexpr (std::is_same_v<T, std::chrono::system_clock::time_point>) {
      std::int64_t ms = 0;
      if (!decode_number(json, ms) || std::abs(ms) > std::int64_t{9'000'000'000'000}) return false;
      value = std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
      return true;
    } else if constexpr (kIsVector<T>) {
      return decode_list(json, value);
    } else if constexpr (requires { value.has_value(); }) {
      return decode(json, value.emplace());
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) return false;
      value = json.get<std::string>();
      return true;
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return false;
      value = json.get<bool>();
      return true;
    } else if constexpr (std::is_class_v<T>) {
      if (!json.is_object()) return false;
      Reader reader(json, error_);
      describe(reader, value);
      return true;
    } else {
      return decode_number(json, value);
    }
  }

  const Json& json_;
  std::optional<Error>& error_;
};

}  // namespace gpuwarden::facts
