// SPDX-License-Identifier: Apache-2.0
// What a condition is made of once it is parsed: numbers (arithmetic) and conditions over them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/telemetry/expression.hpp"

namespace gpuwarden::telemetry {

/// Arithmetic. Its unit is that of the values that it gives.
struct NumberNode {
  enum class Kind { literal, variable, increase, add, subtract, multiply, divide };
  Kind kind = Kind::literal;
  double literal = 0;
  const Variable* variable = nullptr;
  std::unique_ptr<NumberNode> left;
  std::unique_ptr<NumberNode> right;
  std::string_view unit;
  bool plain_literal = false;  ///< a number without a unit: it takes the unit of what stands beside it
  std::size_t place = 0;       ///< where it begins in the text
};

enum class Comparison { less, at_most, greater, at_least, equal };

struct Expression::Node {
  enum class Kind {
    all,       ///< of the children
    any,       ///< of the children
    opposite,  ///< of the child
    compare,   ///< left to right
    several,   ///< one of a variable's numbers to `right`
    text,      ///< one of a variable's texts is one of the words
    contains,  ///< one of a variable's texts contains one of the words
    present,   ///< a variable has any value
  };
  Kind kind = Kind::all;
  Comparison comparison = Comparison::equal;
  std::vector<Node> children;
  std::unique_ptr<NumberNode> left;
  std::unique_ptr<NumberNode> right;
  const Variable* variable = nullptr;
  std::vector<std::string> words;
};

/// What it comes to; nothing where that depends on what is not known, or divides by nothing.
std::optional<double> number_of(const NumberNode& node, const Subject& subject);
std::optional<bool> truth_of(const Expression::Node& node, const Subject& subject);

}  // namespace gpuwarden::telemetry
