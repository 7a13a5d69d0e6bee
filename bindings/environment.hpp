// SPDX-License-Identifier: Apache-2.0
// Variables of the environment, by which the libraries are told what their callers have no words for.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::bindings {

/// The value of a variable; empty where it is not set.
inline std::string_view value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Reads a variable that is set with `read`, and names it in the error.
template <class T, class Read>
Result<void> take(const char* name, const Read& read, T& into) {
  const std::string_view text = value_of(name);
  if (text.empty()) return {};
  auto result = read(text);
  if (!result)
    return fail(result.error().code, fmt::format("{}: {}", name, result.error().message), result.error().hint);
  into = std::move(*result);
  return {};
}

}  // namespace gpuwarden::bindings
