// SPDX-License-Identifier: Apache-2.0
// What stands on a side of an operator while a condition is parsed, and whether units go together.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telemetry/expression_lexer.hpp"
#include "telemetry/expression_node.hpp"

namespace gpuwarden::telemetry {

template <class T>
using Parsed = std::expected<T, ParseFailure>;

/// A number, a condition in brackets, or a variable that has several values: one of them is set.
struct Operand {
  std::unique_ptr<NumberNode> number;
  std::optional<Expression::Node> condition;
  const Variable* several = nullptr;
  std::size_t place = 0;
};

inline std::unexpected<ParseFailure> fail_at(std::size_t place, std::string what, std::string hint = {}) {
  return std::unexpected(ParseFailure{place, std::move(what), std::move(hint)});
}

/// Alone, it must be something that is so or not.
Parsed<Expression::Node> to_condition(Operand operand);
Parsed<std::unique_ptr<NumberNode>> to_number(Operand operand);

/// Joins two numbers by + - * or /; fails where their units do not go together.
Parsed<std::unique_ptr<NumberNode>> calculation(std::string_view sign, std::unique_ptr<NumberNode> left,
                                                std::unique_ptr<NumberNode> right);
/// Compares two numbers, of which a percentage may be a share of what the other is a part of.
Parsed<Expression::Node> comparison_of(Comparison comparison, const NumberNode& left, const NumberNode& right);
/// Compares one of a variable's several numbers.
Parsed<Expression::Node> comparison_of(Comparison comparison, const Variable& several, const NumberNode& right);
/// Whether one of a variable's texts is (or contains) the word; fails where it can never be.
Parsed<Expression::Node> text_comparison(const Variable& variable, bool contains, const Token& word);

Expression::Node opposite_of(Expression::Node node);
std::unique_ptr<NumberNode> copy_of(const NumberNode& node);

}  // namespace gpuwarden::telemetry
