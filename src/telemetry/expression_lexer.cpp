// SPDX-License-Identifier: Apache-2.0
#include "telemetry/expression_lexer.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/telemetry/variables.hpp"
#include "telemetry/expression_units.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
constexpr std::string_view kWhiteSpace = " \t\r\n";
/// What ends a bare text.
constexpr std::string_view kTextEnds = " \t\r\n()|&!,'\"<>=~";
/// The longest first.
constexpr auto kSigns = std::to_array<std::string_view>(
    {"&&", "||", "<=", ">=", "==", "!=", "!~", "&", "|", "!", "<", ">", "=", "~", "(", ")", ",", "+", "-", "*", "/"});

std::size_t length_of(std::string_view text, std::string_view characters) {
  return std::min(text.find_first_not_of(characters), text.size());
}

/// Of "GiB", "%", "°C", "GB/s" at the beginning of `text`; 0 where there is no unit.
std::size_t length_of_unit(std::string_view text) {
  if (text.starts_with('%')) return 1;
  constexpr std::string_view kDegree = "°";
  const std::size_t sign = text.starts_with(kDegree) ? kDegree.size() : 0;
  const std::size_t length = sign + length_of(text.substr(sign), kLetters);
  const std::string_view rest = text.substr(length);
  const bool a_second = rest.starts_with("/s") && length_of(rest.substr(2), kNameCharacters) == 0;
  return a_second && find_unit(text.substr(0, length + 2)) != nullptr ? length + 2 : length;
}

}  // namespace

Token Lexer::token(Token::Kind kind, std::size_t length) const {
  return {kind, text_.substr(position_, length), 0, {}, position_, position_ + length};
}

void Lexer::skip_white_space() { position_ += length_of(text_.substr(position_), kWhiteSpace); }

const Token& Lexer::peek() {
  if (!next_) next_ = read();
  return *next_;
}

Token Lexer::take() {
  Token token = peek();
  position_ = token.end;
  next_.reset();
  return token;
}

Token Lexer::read() {
  skip_white_space();
  if (position_ == text_.size()) return token(Token::Kind::end, 0);
  const char c = text_[position_];
  const char after = position_ + 1 < text_.size() ? text_[position_ + 1] : ' ';
  if (kLetters.contains(c)) return read_name();
  if (kDigits.contains(c) || (c == '.' && kDigits.contains(after))) return read_number();
  if (c == '"' || c == '\'') return read_quoted();
  return read_sign();
}

Token Lexer::read_name() {
  const std::string_view rest = text_.substr(position_);
  const std::size_t length = length_of(rest, kNameCharacters);
  // "mem%" is a name of its own.
  const bool percent = rest.substr(length).starts_with('%') && find_variable(rest.substr(0, length + 1)) != nullptr;
  return token(Token::Kind::name, length + (percent ? 1 : 0));
}

Token Lexer::read_number() {
  const std::string_view rest = text_.substr(position_);
  std::size_t length = length_of(rest, "0123456789.");
  const std::string_view exponent = rest.substr(length);
  if (exponent.starts_with('e') || exponent.starts_with('E')) {
    const std::size_t sign = exponent.substr(1).starts_with('-') || exponent.substr(1).starts_with('+') ? 1 : 0;
    const std::size_t digits = length_of(exponent.substr(1 + sign), kDigits);
    if (digits > 0) length += 1 + sign + digits;
  }
  const auto value = parse_number(rest.substr(0, length));
  if (!value) return token(Token::Kind::unreadable, length);
  // A space may stand before a unit, but what is no unit is the next word.
  const std::size_t gap = rest.substr(length).starts_with(' ') ? 1 : 0;
  const std::size_t unit = length_of_unit(rest.substr(length + gap));
  const std::string_view name = rest.substr(length + gap, unit);
  const bool taken = unit > 0 && (gap == 0 || find_unit(name) != nullptr);
  Token number = token(Token::Kind::number, length + (taken ? gap + unit : 0));
  number.number = *value;
  if (taken) number.unit = name;
  return number;
}

Token Lexer::read_quoted() {
  const char quote = text_[position_];
  const std::size_t end = text_.find(quote, position_ + 1);
  if (end == std::string_view::npos) return token(Token::Kind::unreadable, text_.size() - position_);
  return {Token::Kind::quoted, text_.substr(position_ + 1, end - position_ - 1), 0, {}, position_, end + 1};
}

Token Lexer::read_sign() {
  const std::string_view rest = text_.substr(position_);
  const auto* const sign =
      std::ranges::find_if(kSigns, [rest](std::string_view known) { return rest.starts_with(known); });
  if (sign == kSigns.end()) return token(Token::Kind::unreadable, 1);
  return token(Token::Kind::sign, sign->size());
}

Token Lexer::take_text() {
  next_.reset();
  skip_white_space();
  if (position_ < text_.size() && (text_[position_] == '"' || text_[position_] == '\''))
    return peek().kind == Token::Kind::quoted ? take() : token(Token::Kind::end, 0);
  const std::string_view rest = text_.substr(position_);
  const std::size_t length = std::min(rest.find_first_of(kTextEnds), rest.size());
  const Token text = token(length > 0 ? Token::Kind::quoted : Token::Kind::end, length);
  position_ = text.end;
  return text;
}

}  // namespace gpuwarden::telemetry
