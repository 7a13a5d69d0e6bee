// SPDX-License-Identifier: Apache-2.0
// What people say of a job, as tests write it.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "gpuwarden/base/named_values.hpp"

namespace gpuwarden::jobs::testing {

/// As on a command line; "" is a flag.
inline NamedValues said(std::initializer_list<std::pair<const char*, const char*>> given) {
  NamedValues values("--");
  for (const auto& [name, value] : given)
    values.set(name, *value == '\0' ? std::vector<std::string>{} : std::vector<std::string>{value});
  return values;
}

/// The message of an invalid_argument.
template <class T>
std::string refusal(const Result<T>& result) {
  if (result) return "it was taken";
  return result.error().code == ErrorCode::invalid_argument ? result.error().message : "of another kind";
}

}  // namespace gpuwarden::jobs::testing
