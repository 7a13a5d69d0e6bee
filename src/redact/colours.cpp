// SPDX-License-Identifier: Apache-2.0
// A terminal's control sequences inside a log ("ESC[33m"), raw or as other programs escape them: their last letter
// would hide where a word begins.
#include <algorithm>
#include <array>

#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

constexpr char kEscape = '\x1b';
/// ECMA-48 sets no bound; the longest in use, with two colours of 24 bits, has fewer parameters than this.
constexpr std::size_t kLongestParameters = 48;

/// As JSON, Python, the shell, C and the syslog write ESC; backslashes before the first four are part of it.
constexpr std::array<std::string_view, 6> kWritten{"\\u001b", "\\x1b", "\\033", "\\e", "^[", "#033"};

/// Where the ESC before the bracket at `bracket` begins, or npos.
std::size_t escape_begin(std::string_view text, std::size_t bracket, std::size_t from) {
  if (bracket == from) return std::string_view::npos;
  if (text[bracket - 1] == kEscape) return bracket - 1;
  if (text[bracket] != '[') return std::string_view::npos;
  for (const std::string_view written : kWritten) {
    if (bracket - from < written.size() || !has_at(text, bracket - written.size(), written)) continue;
    std::size_t begin = bracket - written.size();
    while (written[0] == '\\' && begin > from && text[begin - 1] == '\\') --begin;
    return begin;
  }
  return std::string_view::npos;
}

/// Where the sequence behind the bracket ends, or 0 where it is none. "ESC(B" chooses a character set.
std::size_t sequence_end(std::string_view text, std::size_t bracket) {
  std::size_t end = bracket + 1;
  if (text[bracket] == '(') return end < text.size() && is_alnum(text[end]) ? end + 1 : 0;
  while (end < text.size() && end - bracket < kLongestParameters &&
         (is_digit(text[end]) || text[end] == ';' || text[end] == ':' || text[end] == '?'))
    ++end;
  return end < text.size() && text[end] >= '@' && text[end] <= '~' ? end + 1 : 0;
}

}  // namespace

Plain::Plain(std::string_view text, Joint joint) : text_(text) {
  std::size_t done = 0;
  for (std::size_t at = text.find_first_of("[("); at != std::string_view::npos; at = text.find_first_of("[(", at + 1)) {
    const std::size_t begin = escape_begin(text, at, done);
    const std::size_t end = begin == std::string_view::npos ? 0 : sequence_end(text, at);
    if (end == 0) continue;
    own_.append(text.substr(done, begin - done));
    const bool in_word = !own_.empty() && is_word(own_.back()) && is_word(at_or_end(text, end));
    if (joint == Joint::blank && in_word) own_ += ' ';
    done = end;
    at = end - 1;
    cuts_.push_back({own_.size(), end});
  }
  if (cuts_.empty()) return;
  own_.append(text.substr(done));
}

std::size_t Plain::origin(std::size_t at) const {
  const auto next = std::ranges::upper_bound(cuts_, at, {}, &Cut::plain);
  if (next == cuts_.begin()) return at;
  const Cut& cut = *std::prev(next);
  return cut.origin + (at - cut.plain);
}

void Plain::move_back(Spans& spans) const {
  if (!coloured()) return;
  std::erase_if(spans, [](const Span& span) { return span.begin >= span.end; });
  for (Span& span : spans) {
    span.begin = origin(span.begin);
    span.end = origin(span.end - 1) + 1;
  }
}

}  // namespace gpuwarden::redact
