// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/text_decoder.hpp"

#include <algorithm>

namespace gpuwarden::diagnosis {

namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";
constexpr std::string_view kLittleMark = "\xFF\xFE";
constexpr std::string_view kBigMark = "\xFE\xFF";
constexpr std::uint32_t kReplacement = 0xFFFD;
/// So much is converted before it is handed on.
constexpr std::size_t kConvertAtOnce = std::size_t{16} << 10;

bool is_high(std::uint32_t value) { return value >= 0xD800 && value < 0xDC00; }
bool is_low(std::uint32_t value) { return value >= 0xDC00 && value < 0xE000; }

}  // namespace

void TextDecoder::feed(std::string_view piece, const Sink& sink) {
  if (encoding_ != Encoding::unknown) return pass(piece, sink);
  const std::size_t taken = std::min(piece.size(), kUtf8Mark.size() - beginning_.size());
  beginning_ += piece.substr(0, taken);
  if (beginning_.size() < kUtf8Mark.size()) return;
  recognise(false, sink);
  pass(piece.substr(taken), sink);
}

void TextDecoder::finish(const Sink& sink) {
  if (encoding_ == Encoding::unknown) recognise(true, sink);
  if (surrogate_ != 0) append(kReplacement);
  if (!odd_.empty()) append(kReplacement);
  if (!converted_.empty()) sink(converted_);
  converted_.clear();
}

void TextDecoder::recognise(bool at_end, const Sink& sink) {
  const std::string beginning = beginning_;
  const std::string_view text = beginning;
  beginning_.clear();
  encoding_ = Encoding::bytes;
  std::size_t mark = 0;
  if (text.starts_with(kUtf8Mark)) {
    mark = kUtf8Mark.size();
  } else if (text.starts_with(kLittleMark)) {
    encoding_ = Encoding::utf16_little;
    mark = kLittleMark.size();
  } else if (text.starts_with(kBigMark)) {
    encoding_ = Encoding::utf16_big;
    mark = kBigMark.size();
  }
  if (!at_end || mark < text.size()) pass(text.substr(mark), sink);
}

void TextDecoder::pass(std::string_view piece, const Sink& sink) {
  if (piece.empty()) return;
  if (encoding_ == Encoding::bytes) return sink(piece);
  const bool little = encoding_ == Encoding::utf16_little;
  const auto join = [little](char first, char second) {
    const auto low = static_cast<unsigned char>(little ? first : second);
    const auto high = static_cast<unsigned char>(little ? second : first);
    return static_cast<std::uint32_t>(low | high << 8);
  };
  if (!odd_.empty()) {
    unit(join(odd_.front(), piece.front()));
    odd_.clear();
    piece.remove_prefix(1);
  }
  for (; piece.size() >= 2; piece.remove_prefix(2)) {
    unit(join(piece[0], piece[1]));
    if (converted_.size() < kConvertAtOnce) continue;
    sink(converted_);
    converted_.clear();
  }
  if (!piece.empty()) odd_.push_back(piece.front());
}

void TextDecoder::unit(std::uint32_t value) {
  if (surrogate_ != 0) {
    const std::uint32_t first = surrogate_;
    surrogate_ = 0;
    if (is_low(value)) return append(0x10000 + ((first - 0xD800) << 10) + (value - 0xDC00));
    append(kReplacement);
  }
  if (is_high(value)) {
    surrogate_ = value;
  } else {
    append(is_low(value) ? kReplacement : value);
  }
}

void TextDecoder::append(std::uint32_t character) {
  const auto byte = [this](std::uint32_t value) { converted_.push_back(static_cast<char>(value)); };
  if (character < 0x80) return byte(character);
  if (character < 0x800) {
    byte(0xC0 | character >> 6);
  } else {
    if (character < 0x10000) {
      byte(0xE0 | character >> 12);
    } else {
      byte(0xF0 | character >> 18);
      byte(0x80 | (character >> 12 & 0x3F));
    }
    byte(0x80 | (character >> 6 & 0x3F));
  }
  byte(0x80 | (character & 0x3F));
}

}  // namespace gpuwarden::diagnosis
