// SPDX-License-Identifier: Apache-2.0
// Columns of numbers as few bytes: differences, zigzag, varints, runs. Input may be anybody's: nothing is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::telemetry::codec {

/// Stands for "no value" in a column; what is encoded is a bit, so that it costs no number.
inline constexpr std::int64_t kGap = std::numeric_limits<std::int64_t>::min();

/// Small numbers of either sign become small numbers: 0, -1, 1, -2 are 0, 1, 2, 3.
constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1U) ^ (~(value & 1U) + 1U));
}

/// Seven bits a byte, lowest first; the eighth says that more follow (LEB128).
void put_varint(std::string& out, std::uint64_t value);

/// Reads bytes front to back; each answer is nothing where too few are left or they mean no number.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  std::optional<std::uint64_t> varint();
  std::optional<std::string_view> bytes(std::uint64_t count);
  bool empty() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

/// Reads back the same values, kGap included: decode_column(encode_column(v), v.size()) == v.
std::string encode_column(std::span<const std::int64_t> values);
/// Exactly `rows` values; nothing where the bytes are not that.
std::optional<std::vector<std::int64_t>> decode_column(std::string_view bytes, std::size_t rows);

/// One row of many columns: a bit for each that has a value, then the values.
std::string encode_row(std::span<const std::int64_t> values);
/// At most `most` values; nothing where the bytes are no row.
std::optional<std::vector<std::int64_t>> decode_row(std::string_view bytes, std::size_t most);

/// The most bytes that a column of so many rows can take.
constexpr std::size_t largest_column(std::size_t rows) { return 32 + rows / 8 + rows * 12; }

/// Raw deflate (RFC 1951).
std::string deflate(std::string_view bytes);
/// Nothing where the bytes are not that, or become more than `most`.
std::optional<std::string> inflate(std::string_view bytes, std::size_t most);

}  // namespace gpuwarden::telemetry::codec
