// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <fmt/format.h>

#include <string_view>

#include "environment.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::torch {
namespace {

using bindings::take;
using bindings::value_of;

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
  GPUWARDEN_CHECK(take("GPUWARDEN_MEMORY_TRIM", parse_duration, settings.trim_after));
  GPUWARDEN_CHECK(take("GPUWARDEN_MEMORY_ON_FAILURE", read_reaction, settings.throws));
  GPUWARDEN_TRY(settings.observer, bindings::read_observer_settings());
  return settings;
}

}  // namespace gpuwarden::torch
