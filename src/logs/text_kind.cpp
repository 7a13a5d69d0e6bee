// SPDX-License-Identifier: Apache-2.0
#include "logs/text_kind.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/compression.hpp"

namespace gpuwarden::logs {
namespace {

constexpr std::size_t kLooksAt = std::size_t{64} << 10U;
constexpr std::string_view kLittleMark = "\xFF\xFE";
constexpr std::string_view kBigMark = "\xFE\xFF";

bool is_packed(std::string_view bytes) {
  constexpr std::size_t kTar = 257;  // POSIX.1-2001, ustar header
  return !compression_of(bytes).empty() || (bytes.size() > kTar && bytes.substr(kTar).starts_with("ustar"));
}

/// The mark that a text in UTF-16 should have had: where most characters are ASCII, every other byte is NUL.
std::string_view missing_mark(std::string_view text) {
  std::array<std::size_t, 2> nuls{};
  for (std::size_t i = 0; i < text.size(); ++i) nuls[i % 2] += text[i] == '\0' ? 1 : 0;
  const std::size_t characters = text.size() / 2;
  const auto are_halves = [&](std::size_t high, std::size_t low) {
    return characters > 1 && high * 5 >= characters * 2 && low * 50 <= characters;
  };
  if (are_halves(nuls[1], nuls[0])) return kLittleMark;
  return are_halves(nuls[0], nuls[1]) ? kBigMark : std::string_view{};
}

/// No text: of random bytes a tenth are control characters. A run of NULs counts once: it may be a hole that a crash
/// left in a log.
bool is_binary(std::string_view text) {
  std::size_t odd = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool hole = c == 0 && i > 0 && text[i - 1] == '\0';
    const bool usual = c >= 0x20 || (c >= '\a' && c <= '\r') || c == 0x1b;
    odd += !usual && !hole ? 1 : 0;
  }
  return odd * 20 > text.size();
}

}  // namespace

Beginning look_at(std::string_view bytes) {
  if (is_packed(bytes)) return {.content = Content::packed};
  if (bytes.starts_with("PK\x03\x04")) return {.content = Content::zip};
  if (bytes.starts_with(kLittleMark) || bytes.starts_with(kBigMark)) return {};
  const std::size_t nuls = std::min(bytes.find_first_not_of('\0'), bytes.size());
  // A character of UTF-16 may begin with a NUL.
  const std::size_t skip = nuls / 2 * 2;
  const std::string_view mark = missing_mark(bytes.substr(skip, kLooksAt));
  if (!mark.empty()) return {.skip = skip, .mark = mark};
  return {.content = is_binary(bytes.substr(nuls, kLooksAt)) ? Content::binary : Content::text, .skip = nuls};
}

}  // namespace gpuwarden::logs
