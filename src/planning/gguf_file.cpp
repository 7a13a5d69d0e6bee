// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/gguf_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMostEntries = 1U << 16U;  ///< keys or tensors: ten times those of any model
constexpr std::uint64_t kLongestName = 65'535;     ///< of a key (docs/gguf.md)
constexpr std::uint32_t kMostSizes = 4;
constexpr std::uint64_t kUsualAlignment = 32;
/// Of real models a head with words, their merges and a template takes some ten MiB.
constexpr std::uint64_t kLargestHead = std::uint64_t{256} << 20U;

/// gguf_type: what a value is.
struct ValueType {
  enum : std::uint32_t {
    uint8,
    int8,
    uint16,
    int16,
    uint32,
    int32,
    float32,
    boolean,
    text,
    array,
    uint64,
    int64,
    float64,
    count
  };
};
constexpr std::array<std::uint8_t, ValueType::count> kWidths{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

std::unexpected<Error> corrupt(std::string_view name, std::string_view what) {
  return fail(ErrorCode::corrupt, fmt::format("{}: {}", name, what), "download it again");
}

template <class T>
double number_of(const std::array<char, 8>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return static_cast<double>(value);
}

double number_of(std::uint32_t type, const std::array<char, 8>& bytes) {
  switch (type) {
    case ValueType::int8:
      return number_of<std::int8_t>(bytes);
    case ValueType::uint16:
      return number_of<std::uint16_t>(bytes);
    case ValueType::int16:
      return number_of<std::int16_t>(bytes);
    case ValueType::uint32:
      return number_of<std::uint32_t>(bytes);
    case ValueType::int32:
      return number_of<std::int32_t>(bytes);
    case ValueType::float32:
      return number_of<float>(bytes);
    case ValueType::uint64:
      return number_of<std::uint64_t>(bytes);
    case ValueType::int64:
      return number_of<std::int64_t>(bytes);
    case ValueType::float64:
      return number_of<double>(bytes);
    default:
      return number_of<std::uint8_t>(bytes);
  }
}

/// Reads a head from its first byte to its last. Whatever a length says, no more is kept than the file has.
class HeadReader {
 public:
  HeadReader(std::istream& stream, std::uint64_t file_bytes, std::string_view name)
      : stream_(stream), left_(file_bytes), name_(name) {
    header_.file_bytes = file_bytes;
  }

  Result<GgufHeader> read() {
    GPUWARDEN_CHECK(read_magic());
    GPUWARDEN_TRY(const auto tensors, count());
    GPUWARDEN_TRY(const auto keys, count());
    for (std::uint64_t i = 0; i < keys; ++i) GPUWARDEN_CHECK(read_key());
    for (std::uint64_t i = 0; i < tensors; ++i) GPUWARDEN_CHECK(read_tensor());
    GPUWARDEN_CHECK(measure_tensors());
    return std::move(header_);
  }

 private:
  Result<void> take(char* to, std::size_t bytes) {
    if (bytes > left_ || !stream_.read(to, static_cast<std::streamsize>(bytes)))
      return corrupt(name_, "ends within its head");
    left_ -= bytes;
    return {};
  }
  Result<void> skip(std::uint64_t bytes) {
    if (bytes > left_ || !pass(static_cast<std::streamoff>(bytes))) return corrupt(name_, "ends within its head");
    left_ -= bytes;
    if (header_.file_bytes - left_ > kLargestHead) return corrupt(name_, "has a head of more than 256 MiB");
    return {};
  }
  /// A word is read over, for which no file's buffer is given up.
  bool pass(std::streamoff bytes) {
    constexpr std::streamoff kLongestWord = 4096;
    return static_cast<bool>(bytes <= kLongestWord ? stream_.ignore(bytes) : stream_.seekg(bytes, std::ios::cur));
  }
  template <class T>
  Result<T> value() {
    T read{};
    GPUWARDEN_CHECK(take(reinterpret_cast<char*>(&read), sizeof read));
    return read;
  }
  Result<std::uint64_t> count() {
    GPUWARDEN_TRY(const auto read, value<std::uint64_t>());
    if (read > kMostEntries) return corrupt(name_, fmt::format("its head names {} entries", read));
    return read;
  }
  /// Its first `most` bytes.
  Result<std::string> text(std::uint64_t most) {
    GPUWARDEN_TRY(const auto length, value<std::uint64_t>());
    std::string read(std::min({length, most, left_}), '\0');
    GPUWARDEN_CHECK(take(read.data(), read.size()));
    GPUWARDEN_CHECK(skip(length - read.size()));
    return read;
  }

  Result<void> read_magic() {
    std::array<char, kGgufMagic.size()> magic{};
    const bool whole = take(magic.data(), magic.size()).has_value();
    if (!whole || std::string_view(magic.data(), magic.size()) != kGgufMagic)
      return fail(ErrorCode::corrupt, fmt::format("{}: is not a GGUF file", name_),
                  "a file of llama.cpp's begins with the letters GGUF");
    GPUWARDEN_TRY(const auto version, value<std::uint32_t>());
    constexpr std::uint32_t kLargestVersion = 0xFFFF;
    if (version > kLargestVersion)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: is a GGUF file for big-endian machines", name_),
                  "GPUs' machines are little-endian: take the usual file");
    if (version != 2 && version != 3)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: is a GGUF file of version {}", name_, version),
                  "versions 2 and 3 are read: take a newer file of this model");
    return {};
  }

  Result<void> read_key() {
    GPUWARDEN_TRY(std::string key, text(kLongestName));
    GPUWARDEN_TRY(const auto type, value<std::uint32_t>());
    if (type == ValueType::array) return read_array(std::move(key));
    if (type == ValueType::text) {
      GPUWARDEN_TRY(header_.texts[std::move(key)], text(kLongestGgufText));
      return {};
    }
    GPUWARDEN_TRY(const double number, read_number(type));
    header_.numbers[std::move(key)] = {number};
    return {};
  }

  Result<double> read_number(std::uint32_t type) {
    if (type >= ValueType::count || kWidths[type] == 0)
      return corrupt(name_, fmt::format("its head has a value of unknown type {}", type));
    std::array<char, 8> bytes{};
    GPUWARDEN_CHECK(take(bytes.data(), kWidths[type]));
    const double number = number_of(type, bytes);
    return std::isfinite(number) ? number : 0;
  }

  Result<void> read_array(std::string key) {
    GPUWARDEN_TRY(const auto type, value<std::uint32_t>());
    GPUWARDEN_TRY(const auto length, value<std::uint64_t>());
    if (type == ValueType::text) {
      for (std::uint64_t i = 0; i < length; ++i) GPUWARDEN_CHECK(text(0));
      header_.lengths[std::move(key)] = length;
      return {};
    }
    if (type >= ValueType::count || kWidths[type] == 0)
      return corrupt(name_, fmt::format("its head has an array of type {}", type));
    if (length > kMostGgufNumbers) {
      header_.lengths[std::move(key)] = length;
      return length > left_ ? corrupt(name_, "ends within its head") : skip(length * kWidths[type]);
    }
    std::vector<double> numbers(length);
    for (double& number : numbers) {
      GPUWARDEN_TRY(number, read_number(type));
    }
    header_.numbers[std::move(key)] = std::move(numbers);
    return {};
  }

  Result<void> read_tensor() {
    GgufTensor tensor;
    GPUWARDEN_TRY(tensor.name, text(kLongestName));
    GPUWARDEN_TRY(const auto sizes, value<std::uint32_t>());
    if (sizes > kMostSizes)
      return corrupt(name_, fmt::format("{} has {} dimensions", printable(tensor.name.substr(0, 100)), sizes));
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < sizes; ++i) {
      GPUWARDEN_TRY(const auto size, value<std::uint64_t>());
      constexpr std::uint64_t kMostElements = std::uint64_t{1} << 50U;
      if (size == 0 || size > kMostElements / elements)
        return corrupt(name_, fmt::format("{} has no size", printable(tensor.name.substr(0, 100))));
      elements *= size;
      tensor.sizes.push_back(size);
    }
    GPUWARDEN_TRY(tensor.type, value<std::uint32_t>());
    GPUWARDEN_TRY(const auto offset, value<std::uint64_t>());
    offsets_.push_back(offset);
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  /// What a tensor takes follows from its format, of one that is not known from where the next begins.
  Result<void> measure_tensors() {
    const std::uint64_t head = header_.file_bytes - left_;
    const auto alignment = static_cast<std::uint64_t>(
        std::clamp(header_.number("general.alignment").value_or(kUsualAlignment), 1.0, 65'536.0));
    const std::uint64_t begin = (head + alignment - 1) / alignment * alignment;
    const std::uint64_t data = header_.file_bytes - std::min(begin, header_.file_bytes);
    std::vector<std::uint64_t> ends = offsets_;
    ends.push_back(data);
    std::ranges::sort(ends);
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      GgufTensor& tensor = header_.tensors[i];
      if (offsets_[i] >= data) return incomplete();
      tensor.bytes = *std::ranges::upper_bound(ends, offsets_[i]) - offsets_[i];
      const GgmlFormat* const format = find_ggml_format(tensor.type);
      if (format == nullptr) continue;
      const std::uint64_t known = tensor.elements() / format->weights * format->bytes;
      if (known > tensor.bytes) return incomplete();
      tensor.bytes = known;
    }
    return {};
  }
  std::unexpected<Error> incomplete() const {
    return corrupt(name_,
                   fmt::format("is not complete: it has {} bytes, and its tensors need more", header_.file_bytes));
  }

  std::istream& stream_;
  std::uint64_t left_;
  std::string name_;
  GgufHeader header_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace

std::uint64_t GgufTensor::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{1}, std::multiplies<>());
}

std::optional<double> GgufHeader::number(std::string_view key) const {
  const auto found = numbers.find(key);
  if (found == numbers.end() || found->second.empty()) return std::nullopt;
  return found->second.front();
}

std::string_view GgufHeader::text(std::string_view key) const {
  const auto found = texts.find(key);
  return found == texts.end() ? std::string_view() : std::string_view(found->second);
}

std::uint32_t GgufHeader::parts() const {
  return static_cast<std::uint32_t>(std::clamp(number("split.count").value_or(1), 1.0, 65'535.0));
}

Result<GgufHeader> read_gguf(std::istream& stream, std::uint64_t file_bytes, std::string_view name) {
  return HeadReader(stream, file_bytes, name).read();
}

void add_part(GgufHeader& header, GgufHeader part) {
  std::ranges::move(part.tensors, std::back_inserter(header.tensors));
  header.file_bytes += part.file_bytes;
}

}  // namespace gpuwarden::planning
