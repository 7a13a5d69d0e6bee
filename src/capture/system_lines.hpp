// SPDX-License-Identifier: Apache-2.0
// What the readers of the system's tools share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::capture {

bool begins_with_digit(std::string_view text);

/// "label:   value": the value; nothing where the line has another label.
std::optional<std::string_view> value_of(std::string_view line, std::string_view label);

/// Sets a field that has no value yet.
void keep(std::optional<std::string>& field, std::string_view value);

/// Packages, compilers, container engines: one line each.
bool take_software(std::string_view line, facts::Environment& environment);

/// systemctl status: "* nvidia-fabricmanager.service - ...", then "Active: active (running) since ...".
class ServiceStatus {
 public:
  bool take(std::string_view line, facts::Environment& environment);

 private:
  std::string name_;
};

}  // namespace gpuwarden::capture
