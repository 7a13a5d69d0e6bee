// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/typed_values.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden {

Result<std::uint32_t> parse_count(std::string_view text, std::uint32_t most) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > most)
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not a whole number from 0 to {}", printable(text), most));
  return static_cast<std::uint32_t>(*number);
}

Result<CountRange> parse_count_range(std::string_view text, std::uint32_t most) {
  if (!text.contains(':')) {
    GPUWARDEN_TRY(const std::uint32_t count, parse_count(text, most));
    return CountRange{count, count};
  }
  const auto parts = split(text, ':');
  const auto least = parse_integer(parts[0]);
  const auto greatest = parse_integer(parts[1]);
  if (parts.size() != 2 || !least || !greatest || *least < 1 || *greatest < *least || *greatest > most)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a range", printable(text)),
                fmt::format("MIN:MAX, for example 2:4; MIN from 1, MAX up to {}", most));
  return CountRange{static_cast<std::uint32_t>(*least), static_cast<std::uint32_t>(*greatest)};
}

Result<Bytes> parse_meant_size(std::string_view text) {
  GPUWARDEN_TRY(const Bytes size, parse_size(text));
  if (size < 1_MiB && parse_number(text) && size.value > 0)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has no unit, and would be bytes", text),
                fmt::format("write {0}GiB, {0}MiB or {0}B", text));
  return size;
}

}  // namespace gpuwarden
