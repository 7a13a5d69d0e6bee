// SPDX-License-Identifier: Apache-2.0
// Words, numbers and signs of a condition, read on demand: only its reader knows whether "node-7" is a text or a
// subtraction.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpuwarden::telemetry {

/// What a text cannot be read for.
struct ParseFailure {
  std::size_t place = 0;  ///< byte in the text, from 0
  std::string what;
  std::string hint;
};

struct Token {
  enum class Kind { end, name, number, quoted, sign, unreadable };
  Kind kind = Kind::end;
  std::string_view text;  ///< of a quoted text what is between the quotes
  double number = 0;
  std::string_view unit;  ///< of a number, as written; may be empty
  std::size_t place = 0;
  std::size_t end = 0;  ///< behind it
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  /// The next token; again and again the same until take().
  const Token& peek();
  Token take();
  /// The text that stands next, quoted or bare (up to white space or a sign that cannot be part of it): for places
  /// where only a text can stand. A token of kind `end` where there is none.
  Token take_text();
  std::size_t place() const { return position_; }

 private:
  Token read();
  Token read_name();
  Token read_number();
  Token read_quoted();
  Token read_sign();
  void skip_white_space();
  Token token(Token::Kind kind, std::size_t length) const;

  std::string_view text_;
  std::size_t position_ = 0;
  std::optional<Token> next_;
};

}  // namespace gpuwarden::telemetry
