// SPDX-License-Identifier: Apache-2.0
// What an address looks like, and what only looks like one.
#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "redact/names.hpp"

namespace gpuwarden::redact {
namespace {

/// One number of an IPv4 address: its digits, or 0 where it is above 255 or has a leading zero.
std::size_t octet_at(std::string_view text, std::size_t at) {
  std::size_t length = 0;
  int number = 0;
  while (length < 4 && is_digit(at_or_end(text, at + length))) {
    number = number * 10 + (text[at + length] - '0');
    ++length;
  }
  const bool leading_zero = length > 1 && text[at] == '0';
  return number > 255 || leading_zero || length > 3 ? 0 : length;
}

std::string_view word_before(std::string_view text, std::size_t at) {
  while (at > 0 && (is_blank(text[at - 1]) || is_quote(text[at - 1]) || text[at - 1] == ':' || text[at - 1] == '='))
    --at;
  std::size_t begin = at;
  while (begin > 0 && at - begin < 64 && !is_space(text[begin - 1]) && !is_quote(text[begin - 1]) &&
         text[begin - 1] != '=' && text[begin - 1] != ',')
    --begin;
  return text.substr(begin, at - begin);
}

/// Whether the words before a dotted quad say that it is a version: "cudnn==9.1.0.70", "nvidia-cublas-cu12   12.4.5.8",
/// "Version: 9.1.0.70".
bool is_version(std::string_view text, std::size_t at) {
  if (at >= 2 && (text.substr(at - 2, 2) == "==" || text.substr(at - 2, 2) == ">=" || text.substr(at - 2, 2) == "<="))
    return true;
  const std::string word = to_lower(word_before(text, at));
  static constexpr std::array<std::string_view, 13> kSoftware{"version",  "cudnn",    "cublas",  "cufft", "curand",
                                                              "cusolver", "cusparse", "cuda",    "nccl",  "tensorrt",
                                                              "driver",   "release",  "firmware"};
  if (std::ranges::any_of(kSoftware, [&](std::string_view name) { return word.contains(name); })) return true;
  return word.starts_with("nvidia") || word.starts_with("lib") || word == "v" || word == "ver" ||
         word.contains("-cu1") || word.contains("vbios");
}

/// A letter, a hyphen or another number beside it makes it part of something longer.
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const char previous = before(text, begin);
  const char next = at_or_end(text, end);
  if (is_word(previous) || previous == '-' || previous == '.') return false;
  if (is_word(next) || next == '-' || next == '+') return false;
  return next != '.' || !is_alnum(at_or_end(text, end + 1));
}

}  // namespace

std::size_t ipv4_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && at_or_end(text, end++) != '.') return 0;
    const std::size_t digits = octet_at(text, end);
    if (digits == 0) return 0;
    end += digits;
  }
  return stands_alone(text, at, end) && !is_version(text, at) ? end - at : 0;
}

std::size_t ipv6_at(std::string_view text, std::size_t at) {
  if (is_word(before(text, at)) || before(text, at) == ':' || before(text, at) == '.') return 0;
  std::size_t end = at;
  std::size_t colons = 0;
  while (end < text.size() && end - at < 46 && (is_hex(text[end]) || text[end] == ':'))
    colons += text[end++] == ':' ? 1U : 0U;
  // A colon behind it belongs to the sentence.
  if (end > at && text[end - 1] == ':' && (end < at + 2 || text[end - 2] != ':')) --end;
  if (colons < 2 || is_word(at_or_end(text, end)) || at_or_end(text, end) == '.') return 0;
  const std::string address(text.substr(at, end - at));
  // "c10::d" is C++: an abbreviated address begins with a group of four digits, or has many groups.
  const bool typical = address.find(':') == 4 || colons >= 4;
  std::array<unsigned char, 16> bytes{};
  return typical && ::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1 ? end - at : 0;
}

std::size_t mac_at(std::string_view text, std::size_t at) {
  const char separator = at_or_end(text, at + 2);
  if ((separator != ':' && separator != '-') || is_word(before(text, at)) || before(text, at) == separator) return 0;
  std::size_t end = at;
  std::size_t pairs = 0;
  while (is_hex(at_or_end(text, end)) && is_hex(at_or_end(text, end + 1))) {
    ++pairs;
    end += 2;
    if (at_or_end(text, end) != separator) break;
    ++end;
  }
  if (before(text, end) == separator) --end;
  // Six on Ethernet, eight for an InfiniBand GUID, twenty on IP over InfiniBand.
  const bool known = pairs == 6 || pairs == 8 || pairs == 20;
  return known && !is_word(at_or_end(text, end)) ? end - at : 0;
}

bool is_common_address(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("0.") || address.starts_with("255.") || address == "::1" ||
         address == "::" || address == "169.254.169.254" || address == "00:00:00:00:00:00" ||
         address == "ff:ff:ff:ff:ff:ff";
}

}  // namespace gpuwarden::redact
