// SPDX-License-Identifier: Apache-2.0
#include "telemetry/codec.hpp"

#include <zlib.h>

#include <algorithm>

namespace gpuwarden::telemetry::codec {
namespace {

// How a column is written: its first byte.
constexpr std::uint64_t kConstant = 0;  // one number for all rows
constexpr std::uint64_t kDense = 1;     // differences
constexpr std::uint64_t kGaps = 2;      // a bit for each row that has a value, then differences of those

std::int64_t difference(std::int64_t from, std::int64_t to) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from));
}

std::int64_t sum(std::int64_t value, std::int64_t change) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(change));
}

void put_run(std::string& out, std::uint64_t length) {
  if (length == 0) return;
  put_varint(out, 0);
  put_varint(out, length - 1);
}

/// Differences; 0 and a length stand for so many that are 0.
void put_differences(std::string& out, std::span<const std::int64_t> values) {
  std::int64_t last = 0;
  std::uint64_t run = 0;
  for (const std::int64_t value : values) {
    if (value == kGap) continue;
    const std::int64_t change = difference(last, value);
    last = value;
    if (change == 0) {
      ++run;
      continue;
    }
    put_run(out, run);
    run = 0;
    put_varint(out, zigzag(change));
  }
  put_run(out, run);
}

/// Hands out differences one by one.
class Differences {
 public:
  explicit Differences(Input input) : input_(input) {}

  std::optional<std::int64_t> next() {
    if (run_ > 0) {
      --run_;
      return last_;
    }
    const auto token = input_.varint();
    if (!token) return std::nullopt;
    if (*token != 0) return last_ = sum(last_, unzigzag(*token));
    const auto length = input_.varint();
    if (!length) return std::nullopt;
    run_ = *length;
    return last_;
  }
  bool at_end() const { return run_ == 0 && input_.empty(); }

 private:
  Input input_;
  std::int64_t last_ = 0;
  std::uint64_t run_ = 0;
};

bool has_bit(std::string_view bits, std::size_t row) {
  return ((static_cast<unsigned char>(bits[row / 8]) >> (row % 8)) & 1U) != 0;
}

std::string bits_of(std::span<const std::int64_t> values) {
  std::string bits((values.size() + 7) / 8, '\0');
  for (std::size_t row = 0; row < values.size(); ++row) {
    if (values[row] == kGap) continue;
    bits[row / 8] = static_cast<char>(static_cast<unsigned char>(bits[row / 8]) | (1U << (row % 8)));
  }
  return bits;
}

std::optional<std::vector<std::int64_t>> constant_column(Input& input, std::size_t rows) {
  const auto value = input.varint();
  if (!value || !input.empty()) return std::nullopt;
  return std::vector<std::int64_t>(rows, unzigzag(*value));
}

/// `bits` empty: every row has a value.
std::optional<std::vector<std::int64_t>> changing_column(const Input& input, std::string_view bits, std::size_t rows) {
  Differences differences(input);
  std::vector<std::int64_t> values(rows, kGap);
  for (std::size_t row = 0; row < rows; ++row) {
    if (!bits.empty() && !has_bit(bits, row)) continue;
    const auto value = differences.next();
    if (!value) return std::nullopt;
    values[row] = *value;
  }
  if (!differences.at_end()) return std::nullopt;
  return values;
}

}  // namespace

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80U));
    value >>= 7U;
  }
  out.push_back(static_cast<char>(value));
}

std::optional<std::uint64_t> Input::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> Input::bytes(std::uint64_t count) {
  if (count > rest_.size()) return std::nullopt;
  const std::string_view result = rest_.substr(0, static_cast<std::size_t>(count));
  rest_.remove_prefix(static_cast<std::size_t>(count));
  return result;
}

std::string encode_column(std::span<const std::int64_t> values) {
  std::string out;
  const bool gaps = std::ranges::find(values, kGap) != values.end();
  if (!gaps && !values.empty() && std::ranges::all_of(values, [&](std::int64_t v) { return v == values.front(); })) {
    put_varint(out, kConstant);
    put_varint(out, zigzag(values.front()));
    return out;
  }
  put_varint(out, gaps ? kGaps : kDense);
  if (gaps) out += bits_of(values);
  put_differences(out, values);
  return out;
}

std::optional<std::vector<std::int64_t>> decode_column(std::string_view bytes, std::size_t rows) {
  Input input(bytes);
  const auto kind = input.varint();
  if (kind == kConstant) return constant_column(input, rows);
  if (kind == kDense) return changing_column(input, {}, rows);
  if (kind != kGaps) return std::nullopt;
  const auto bits = input.bytes((rows + 7) / 8);
  if (!bits) return std::nullopt;
  return changing_column(input, *bits, rows);
}

std::string encode_row(std::span<const std::int64_t> values) {
  std::string out;
  put_varint(out, values.size());
  out += bits_of(values);
  for (const std::int64_t value : values) {
    if (value != kGap) put_varint(out, zigzag(value));
  }
  return out;
}

std::optional<std::vector<std::int64_t>> decode_row(std::string_view bytes, std::size_t most) {
  Input input(bytes);
  const auto count = input.varint();
  if (!count || *count > most) return std::nullopt;
  const auto bits = input.bytes((*count + 7) / 8);
  if (!bits) return std::nullopt;
  std::vector<std::int64_t> values(static_cast<std::size_t>(*count), kGap);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!has_bit(*bits, i)) continue;
    const auto value = input.varint();
    if (!value) return std::nullopt;
    values[i] = unzigzag(*value);
  }
  if (!input.empty()) return std::nullopt;
  return values;
}

std::string deflate(std::string_view bytes) {
  // A window of 4 KiB sees a whole column; zlib's own default would clear 256 KiB for each.
  constexpr int kWindowBits = -12;
  constexpr int kMemoryLevel = 5;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool done = ::deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(done ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

std::optional<std::string> inflate(std::string_view bytes, std::size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, -15) != Z_OK) return std::nullopt;
  std::string out(most, '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool done = ::inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0;
  out.resize(stream.total_out);
  inflateEnd(&stream);
  if (!done) return std::nullopt;
  return out;
}

}  // namespace gpuwarden::telemetry::codec
