// SPDX-License-Identifier: Apache-2.0
// Keys of a JSON object from outside: absent and null are unknown, another type is an error that names the key.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/history.hpp"

namespace gpuwarden::recording {

/// A view; the JSON and the place for the first error must outlive it.
class Keys {
 public:
  Keys(const nlohmann::json& json, std::optional<Error>& error);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string text(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  /// 0 where it is absent; at most four thousand million.
  unsigned count(std::string_view key) const;
  std::optional<Bytes> bytes(std::string_view key) const;
  bool flag(std::string_view key) const;
  /// Of a key in seconds; zero where it is absent.
  std::chrono::milliseconds duration(std::string_view key) const;
  /// Of "2026-11-20T14:03:07Z".
  telemetry::WallTime time(std::string_view key) const;
  std::optional<Keys> object(std::string_view key) const;
  std::vector<Keys> objects(std::string_view key) const;

 private:
  /// nullptr where it is absent or null.
  const nlohmann::json* find(std::string_view key) const;
  void complain(std::string_view key, std::string_view wanted) const;
  std::optional<double> number_of(std::string_view key, const nlohmann::json& value) const;

  const nlohmann::json* json_;
  std::optional<Error>* error_;
};

/// "2026-11-20T14:03:07Z" as format_utc() writes it; nothing for another text.
std::optional<telemetry::WallTime> time_from_utc(std::string_view text);

}  // namespace gpuwarden::recording
