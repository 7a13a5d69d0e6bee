// SPDX-License-Identifier: Apache-2.0
// Typed values of one row of an overlay file; the first error is kept, with its place.
#pragma once

#include <yaml-cpp/node/node.h>

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

/// An overlay file while it is read: its name for errors, its default source, and where its texts live on.
struct OverlayFile {
  std::string_view name;
  std::string source;
  std::deque<std::string>& texts;
};

class OverlayFields {
 public:
  OverlayFields(const YAML::Node& map, OverlayFile& file, std::string where)
      : map_(map), file_(file), where_(std::move(where)) {}

  void known(const std::vector<std::string>& keys);
  void needs(const std::vector<std::string>& keys);
  bool has(const char* key) const;

  // Each leaves its target as it is where the key is absent or empty.
  void text(const char* key, std::string_view& value);
  void choice(const char* key, std::string_view& value, const std::vector<std::string>& options);
  void version(const char* key, Version& value);
  /// "YYYY-MM"; `or_past`: "past" too.
  void month(const char* key, std::string_view& value, bool or_past = false);
  void integer(const char* key, int& value, int low, int high);
  void number(const char* key, double& value, double low, double high);
  void number(const char* key, std::optional<double>& value, double low, double high);
  void flag(const char* key, bool& value);
  /// "9.0" as 90.
  void capability(const char* key, int& value);
  /// A list, or one text: joined by semicolons.
  void joined(const char* key, std::string_view& value);

  OverlayFields section(const char* key) const { return {node(key), file_, where_ + "." + key}; }
  void complain(const char* key, const std::string& what, std::string hint = {});
  /// The text, kept as long as the knowledge that points to it.
  std::string_view keep(std::string text);
  const OverlayFile& file() const { return file_; }
  const std::optional<Error>& error() const { return error_; }
  /// Takes over the error of a part of this row.
  void take_error(const OverlayFields& part) {
    if (!error_) error_ = part.error_;
  }

 private:
  YAML::Node node(const char* key) const;
  /// The scalar of a key; empty where it is absent, or is no plain text (which is an error).
  std::optional<std::string> scalar(const char* key);
  void wrong(const char* key, const std::string& wanted);

  YAML::Node map_;
  OverlayFile& file_;
  std::string where_;
  std::optional<Error> error_;
};

}  // namespace gpuwarden::knowledge
