// SPDX-License-Identifier: Apache-2.0
#include "redact/spans.hpp"

#include <algorithm>
#include <tuple>

namespace gpuwarden::redact {
namespace {

constexpr std::string_view kXmlQuote = "&quot;";

/// A quoted value that is longer ends here: searching further for each of many quotes would take too long.
constexpr std::size_t kLongestQuoted = std::size_t{8} << 10U;

std::size_t line_end(std::string_view text, std::size_t at) {
  const std::size_t limit = std::min(text.size(), at + kLongestQuoted);
  return std::min(text.substr(0, limit).find('\n', at), limit);
}

/// How many backslashes stand right before `at`, none of them before `from`.
std::size_t backslashes_before(std::string_view text, std::size_t from, std::size_t at) {
  std::size_t count = 0;
  while (at - count > from && text[at - count - 1] == '\\') ++count;
  return count;
}

/// Where the text behind an opening quote with `depth` backslashes ends. An inner quote has more of them.
std::size_t closing(std::string_view text, std::size_t from, char quote, std::size_t depth) {
  const std::size_t end = line_end(text, from);
  const std::string_view line = text.substr(0, end);
  for (std::size_t at = line.find(quote, from); at < end; at = line.find(quote, at + 1)) {
    const std::size_t count = backslashes_before(text, from, at);
    if (depth == 0 ? count % 2 == 0 : count <= depth) return at - (depth == 0 ? 0 : count);
  }
  return end;
}

/// A string's prefix in Python: b'...', f"...".
std::size_t skip_prefix(std::string_view text, std::size_t at) {
  const char c = at_or_end(text, at);
  const bool prefix = c == 'b' || c == 'r' || c == 'f' || c == 'u';
  return prefix && is_quote(at_or_end(text, at + 1)) ? at + 1 : at;
}

bool ends_bare_value(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (is_space(c) || is_quote(c) || c == '<' || c == '>') return true;
  // A line end or a quote inside another program's string.
  const char next = at_or_end(text, at + 1);
  return c == '\\' && (next == 'n' || next == 'r' || next == 't' || is_quote(next));
}

Value bare_value(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && !ends_bare_value(text, end)) ++end;
  const std::size_t quoted = text.substr(at, end - at).find(kXmlQuote);
  if (quoted != std::string_view::npos) end = at + quoted;
  while (end > at && std::string_view(",;)]}").contains(text[end - 1])) --end;
  return {at, end, false};
}

}  // namespace

std::string replace(std::string_view text, Spans spans, Removals& removed) {
  std::erase_if(spans, [](const Span& span) { return span.begin >= span.end; });
  std::ranges::sort(spans, [](const Span& a, const Span& b) {
    return std::tuple(a.begin, b.end, a.kind) < std::tuple(b.begin, a.end, b.kind);
  });
  std::string result;
  std::size_t done = 0;
  for (std::size_t i = 0; i < spans.size();) {
    const Span& span = spans[i];
    std::size_t end = span.end;
    for (++i; i < spans.size() && spans[i].begin < end; ++i) end = std::max(end, spans[i].end);
    result.append(text.substr(done, span.begin - done)).append(span.stand_in);
    ++removed[span.kind];
    done = end;
  }
  return result.append(text.substr(done));
}

bool has_at(std::string_view text, std::size_t at, std::string_view part) {
  if (at > text.size() || text.size() - at < part.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char c = text[at + i];
    if ((is_upper(c) ? static_cast<char>(c + 32) : c) != part[i]) return false;
  }
  return true;
}

Value value_at(std::string_view text, std::size_t at) {
  at = skip_prefix(text, at);
  if (text.substr(std::min(at, text.size())).starts_with(kXmlQuote)) {
    const std::size_t from = at + kXmlQuote.size();
    return {from, std::min(text.find(kXmlQuote, from), line_end(text, from)), true};
  }
  std::size_t depth = 0;
  while (depth < 8 && at_or_end(text, at + depth) == '\\') ++depth;
  const char quote = at_or_end(text, at + depth);
  if (!is_quote(quote)) return bare_value(text, at);
  const std::size_t from = at + depth + 1;
  return {from, closing(text, from, quote, depth), true};
}

bool looks_random(std::string_view word) {
  if (word.size() < 8 || word.contains(' ') || word.starts_with('/') || word.starts_with('~')) return false;
  const auto digits = std::ranges::count_if(word, is_digit);
  const auto letters = std::ranges::count_if(word, is_letter);
  if (letters == 0) return word.size() >= 20;
  if (digits > 0) return true;
  // Words of a sentence written together are long, but in one case.
  return word.size() >= 20 && std::ranges::any_of(word, is_upper) && std::ranges::any_of(word, is_lower);
}

}  // namespace gpuwarden::redact
