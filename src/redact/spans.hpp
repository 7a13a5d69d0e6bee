// SPDX-License-Identifier: Apache-2.0
// Places in a text that are to be replaced, and what all finders of such places share.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/redact/redact.hpp"

namespace gpuwarden::redact {

/// text[begin, end) is to become `stand_in`.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  Removed kind = Removed::token;
  std::string stand_in{kRemoved};
};
using Spans = std::vector<Span>;

/// Replaces all spans; where they overlap, the one that begins first stands for them all.
std::string replace(std::string_view text, Spans spans, Removals& removed);

/// What is longer is no name of a setting.
inline constexpr std::size_t kLongestName = 128;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_letter(char c) { return is_upper(c) || is_lower(c); }
constexpr bool is_alnum(char c) { return is_letter(c) || is_digit(c); }
constexpr bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }
constexpr bool is_space(char c) { return is_blank(c) || c == '\n' || c == '\r' || c == '\f' || c == '\v' || c == '\0'; }
constexpr bool is_quote(char c) { return c == '"' || c == '\'' || c == '`'; }
/// Whether a word could go on with this character.
constexpr bool is_word(char c) { return is_alnum(c) || c == '_'; }

/// The character before `at`, or a newline at the text's beginning.
constexpr char before(std::string_view text, std::size_t at) { return at == 0 ? '\n' : text[at - 1]; }
/// The character at `at`, or a newline behind the text's end.
constexpr char at_or_end(std::string_view text, std::size_t at) { return at < text.size() ? text[at] : '\n'; }

/// Whether `text` has `part` at `at`, whatever the case of either; `part` is in lower case.
bool has_at(std::string_view text, std::size_t at, std::string_view part);

/// A value as people write it behind a name: without its quotes.
struct Value {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool quoted = false;
};
/// The value at `at`: behind an opening quote (escaped ones too) up to its partner or the line's end, else up to white
/// space or a quote, without commas and brackets at its end.
Value value_at(std::string_view text, std::size_t at);

/// What stands in place of a control sequence between two letters.
enum class Joint {
  blank,    ///< "x ESC[1m hf_...": a new word
  nothing,  ///< "hf_ ESC[m a1b2...": a word that a search has highlighted in part
};

/// A text without a terminal's control sequences, and the way back to the places in it.
class Plain {
 public:
  /// `text` must live as long as this.
  Plain(std::string_view text, Joint joint);
  std::string_view text() const { return cuts_.empty() ? text_ : std::string_view(own_); }
  bool coloured() const { return !cuts_.empty(); }
  /// From places in text() to those in the original.
  void move_back(Spans& spans) const;

 private:
  struct Cut {
    std::size_t plain;   ///< from here on in text() ...
    std::size_t origin;  ///< ... the original goes on here
  };
  std::size_t origin(std::size_t at) const;

  std::string_view text_;
  std::string own_;
  std::vector<Cut> cuts_;
};

/// Whether a list has this word.
template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

/// Whether a word looks drawn by lot: digits among letters, or very long without being a path, a number or a sentence.
bool looks_random(std::string_view word);

/// Whether a value is YAML's sign of a block ("|", ">-"): the value itself stands in the lines below.
bool is_block_sign(std::string_view value);

// The finders.
void find_tokens(std::string_view text, Spans& spans);
void find_private_keys(std::string_view text, Spans& spans);
void find_url_credentials(std::string_view text, Spans& spans);
void find_headers(std::string_view text, Spans& spans);
void find_named_values(std::string_view text, Spans& spans);
void find_option_values(std::string_view text, Spans& spans);
void find_settings(std::string_view text, Spans& spans);
void find_known_values(std::string_view text, std::span<const std::string> known, Spans& spans);

}  // namespace gpuwarden::redact
