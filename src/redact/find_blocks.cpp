// SPDX-License-Identifier: Apache-2.0
// PEM blocks, credentials in URLs, and HTTP headers that let somebody in.
#include <algorithm>
#include <array>

#include "redact/secret_names.hpp"
#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kEnd = "-----END ";
// Signed URLs have some KiB, user and password never.
constexpr std::size_t kLongestUrl = std::size_t{8} << 10U;
constexpr std::size_t kLongestUserinfo = 512;
/// RFC 7468 blocks are some KiB; beyond this an END belongs to another block.
constexpr std::size_t kLongestBlock = std::size_t{64} << 10U;

/// What lines of a block consist of: base64, "Proc-Type: 4,ENCRYPTED" and escaped line ends.
bool is_block_character(char c) { return is_alnum(c) || std::string_view("+/=\\\r\n :,-").contains(c); }

/// Behind the dashes that close "-----BEGIN X-----" or "-----END X-----".
std::size_t behind_label(std::string_view text, std::size_t at) {
  const std::size_t dashes = text.substr(0, std::min(text.size(), at + 64)).find("-----", at);
  return dashes == std::string_view::npos ? at : dashes + 5;
}

/// Where base64 that begins at `from` stops: the block was cut.
std::size_t end_of_cut_block(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_block_character(text[end])) {
    // A line with a blank in it, and no header's colon, is the text that follows.
    if (text[end] == '\n') {
      const std::string_view line = text.substr(end + 1, text.find('\n', end + 1) - end - 1);
      if (line.contains(' ') && !line.contains(": ")) break;
    }
    ++end;
  }
  return end;
}

/// Where the base64 before an END without a BEGIN starts: the text's beginning was cut.
std::size_t begin_of_cut_block(std::string_view text, std::size_t end, std::size_t from) {
  std::size_t begin = end;
  while (begin > from && is_block_character(text[begin - 1]) && text[begin - 1] != ' ' && text[begin - 1] != ':')
    --begin;
  return begin;
}

/// The '@' that ends a URL's user and password, or npos.
std::size_t end_of_userinfo(std::string_view text, std::size_t from) {
  std::size_t at = from;
  std::size_t sign = std::string_view::npos;
  bool in_authority = true;
  bool password = false;
  text = text.substr(0, from + kLongestUserinfo);
  while (at < text.size() && !is_space(text[at]) && !is_quote(text[at]) && text[at] != '<' && text[at] != '>') {
    const char c = text[at];
    // A slash ends the authority, but passwords hold slashes too: "u:p/w@host" has no port there.
    if (c == '/' || c == '?' || c == '#') in_authority = false;
    if (c == ':' && in_authority && !is_digit(at_or_end(text, at + 1))) password = true;
    if (c == '@' && (in_authority || (password && sign == std::string_view::npos))) sign = at;
    if (c == '@' && !in_authority) break;
    ++at;
  }
  return sign;
}

std::string_view scheme_before(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && (is_alnum(text[begin - 1]) || text[begin - 1] == '+' || text[begin - 1] == '-')) --begin;
  return text.substr(begin, at - begin);
}

void find_userinfo(std::string_view text, std::size_t colon, Spans& spans) {
  const std::size_t from = colon + 3;
  const std::size_t sign = end_of_userinfo(text, from);
  if (sign == std::string_view::npos || sign == from) return;
  const bool web = scheme_before(text, colon).contains("http");
  const std::string_view userinfo = text.substr(from, sign - from);
  // "ssh://git@host" names an account; over HTTP a lone name is a token.
  if (!web && !userinfo.contains(':')) return;
  if (userinfo != kRemoved) spans.push_back({from, sign, Removed::url_credentials});
}

bool is_secret_parameter(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kSignatures{
      "sig", "signature", "x-amz-signature", "x-amz-security-token", "x-amz-credential", "x-goog-signature",
      "key", "code"};
  const auto same = [&](std::string_view known) { return known.size() == name.size() && has_at(name, 0, known); };
  return std::ranges::any_of(kSignatures, same) || secrecy_of(name) != Secrecy::none;
}

/// The parameters behind a URL's '?'.
void find_parameters(std::string_view text, std::size_t at, Spans& spans) {
  text = text.substr(0, at + kLongestUrl);
  const auto ends = [&](std::size_t i) {
    return i >= text.size() || is_space(text[i]) || is_quote(text[i]) || text[i] == '<' || text[i] == '>' ||
           text[i] == '\\';
  };
  // A URL inside this one is looked at by itself.
  while (!ends(at) && text[at] != '?' && !text.substr(at).starts_with("://")) ++at;
  if (at_or_end(text, at) != '?') return;
  while (!ends(at)) {
    const std::size_t name = ++at;
    while (!ends(at) && text[at] != '=' && text[at] != '&') ++at;
    if (ends(at) || text[at] == '&') continue;
    const std::string_view word = text.substr(name, at - name);
    const std::size_t value = ++at;
    while (!ends(at) && text[at] != '&') ++at;
    const std::string_view given = text.substr(value, at - value);
    if (is_secret_parameter(word) && !is_placeholder(given) && given.size() >= 6)
      spans.push_back({value, at, Removed::url_credentials});
  }
}

/// Behind "Authorization" or "Cookie": the separator, with the quotes of JSON around the name, and blanks.
std::size_t behind_separator(std::string_view text, std::size_t at) {
  while (at_or_end(text, at) == '\\') ++at;
  if (is_quote(at_or_end(text, at))) ++at;
  while (is_blank(at_or_end(text, at))) ++at;
  const char c = at_or_end(text, at);
  if (c != ':' && c != '=') return 0;
  ++at;
  while (is_blank(at_or_end(text, at))) ++at;
  return at;
}

bool begins_scheme(std::string_view text, std::size_t at) {
  static constexpr std::array<std::string_view, 9> kSchemes{"bearer ",   "basic ",     "token ", "digest ", "apikey ",
                                                            "aws4-hmac", "negotiate ", "ntlm ",  "splunk "};
  return std::ranges::any_of(kSchemes, [&](std::string_view scheme) { return has_at(text, at, scheme); });
}

void find_header(std::string_view text, std::size_t name_end, bool cookie, Spans& spans) {
  const std::size_t from = behind_separator(text, name_end);
  if (from == 0) return;
  Value value = value_at(text, from);
  const std::string_view word = text.substr(value.begin, value.end - value.begin);
  if (is_placeholder(word)) return;
  const bool secret = cookie ? word.contains('=') : begins_scheme(text, value.begin) || looks_random(word);
  if (!secret) return;
  // A bare header goes to the line's end, or to the quote around the whole of it.
  while (!value.quoted && value.end < text.size() && text[value.end] != '\n' && text[value.end] != '\r' &&
         !is_quote(text[value.end]) && text[value.end] != '\\')
    ++value.end;
  spans.push_back({value.begin, value.end, Removed::header});
}

/// "Bearer eyJ...", "Basic dXNlcjpw..." anywhere.
void find_scheme(std::string_view text, std::size_t at, std::string_view scheme, Spans& spans) {
  const Value value = value_at(text, at + scheme.size());
  const std::string_view word = text.substr(value.begin, value.end - value.begin);
  if (!value.quoted && word.size() >= 12 && looks_random(word))
    spans.push_back({value.begin, value.end, Removed::header});
}

}  // namespace

void find_private_keys(std::string_view text, Spans& spans) {
  std::size_t done = 0;
  std::size_t last_end = 0;
  for (std::size_t at = text.find("-----"); at != std::string_view::npos; at = text.find("-----", done)) {
    done = at + 1;
    if (text.substr(at).starts_with(kBegin)) {
      const std::size_t inside = behind_label(text, at + kBegin.size());
      const std::size_t end = text.substr(0, std::min(text.size(), inside + kLongestBlock)).find(kEnd, inside);
      done = end != std::string_view::npos ? behind_label(text, end + kEnd.size()) : end_of_cut_block(text, inside);
      spans.push_back({at, done, Removed::private_key});
    } else if (text.substr(at).starts_with(kEnd)) {
      done = behind_label(text, at + kEnd.size());
      spans.push_back({begin_of_cut_block(text, at, last_end), done, Removed::private_key});
    } else {
      continue;
    }
    last_end = done;
  }
}

void find_url_credentials(std::string_view text, Spans& spans) {
  for (std::size_t at = text.find("://"); at != std::string_view::npos; at = text.find("://", at + 3)) {
    find_userinfo(text, at, spans);
    find_parameters(text, at + 3, spans);
  }
}

void find_headers(std::string_view text, Spans& spans) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c != 'a' && c != 'A' && c != 'b' && c != 'B' && c != 'c' && c != 'C') || is_alnum(before(text, at))) continue;
    if (has_at(text, at, "authorization")) find_header(text, at + 13, false, spans);
    if (has_at(text, at, "cookie")) find_header(text, at + 6, true, spans);
    if (has_at(text, at, "bearer ")) find_scheme(text, at, "bearer ", spans);
    if (has_at(text, at, "basic ")) find_scheme(text, at, "basic ", spans);
  }
}

}  // namespace gpuwarden::redact
