// SPDX-License-Identifier: Apache-2.0
// Names of values that a room reads (NamedValues), with what each of them holds: for faces whose values have types,
// as a function's arguments do.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpuwarden {

enum class ValueKind : std::uint8_t {
  flag,      ///< there or not
  text,      ///< one word
  list,      ///< words
  count,     ///< a whole number, or a word that stands for one ("2:4", "gpu")
  size,      ///< bytes; as a text with a unit
  duration,  ///< seconds; as a text with a unit
};

struct ValueName {
  std::string_view name;
  ValueKind kind;
};

}  // namespace gpuwarden
