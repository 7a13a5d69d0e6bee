// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::torch {
namespace {

/// The value of a variable; empty where it is not set.
std::string_view value_of(const char* name) {
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

Result<bool> read_reaction(std::string_view text) {
  if (text == "throw" || text == "null") return text == "throw";
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no reaction", printable(text)), "say throw or null");
}

}  // namespace

Result<Settings> read_settings() {
  Settings settings;
  settings.strategy = value_of("GPUWARDEN_MEMORY_STRATEGY");
  settings.trace = value_of("GPUWARDEN_MEMORY_TRACE");
  GPUWARDEN_CHECK(take("GPUWARDEN_GPU_MEM_LIMIT", memory::parse_memory_limit, settings.limit));
  GPUWARDEN_CHECK(take("GPUWARDEN_MEMORY_WAIT", parse_duration, settings.wait_for_others));
  GPUWARDEN_CHECK(take("GPUWARDEN_MEMORY_ON_FAILURE", read_reaction, settings.throws));
  return settings;
}

}  // namespace gpuwarden::torch
