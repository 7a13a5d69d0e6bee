// SPDX-License-Identifier: Apache-2.0
#include "telemetry/expression_operand.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "telemetry/expression_units.hpp"
#include "telemetry/variables_table.hpp"

namespace gpuwarden::telemetry {
namespace {

using Node = Expression::Node;
using Kind = NumberNode::Kind;

/// A size without a unit below this can only be a slip.
constexpr double kLeastPlainSize = 1024.0 * 1024.0;

std::string name_of_unit(std::string_view unit) {
  return unit.empty() ? "a plain number" : fmt::format("in {}", unit == "B" ? "bytes" : unit);
}

bool is_percentage(const NumberNode& node) { return node.kind == Kind::literal && node.unit == "%"; }

Parsed<std::monostate> give_unit(NumberNode& literal, std::string_view unit) {
  if (unit == "B" && literal.kind == Kind::literal && literal.literal > 0 && literal.literal < kLeastPlainSize)
    return fail_at(literal.place, fmt::format("{} bytes are meant? a unit is missing", literal.literal),
                   fmt::format("for example {}", example_of_unit(unit)));
  literal.unit = unit;
  literal.plain_literal = false;
  return {};
}

/// Makes the units of two numbers the same where one of them is a number without a unit.
Parsed<std::monostate> unify(NumberNode& left, NumberNode& right) {
  if (left.unit == right.unit && left.plain_literal == right.plain_literal) return {};
  if (left.plain_literal) return give_unit(left, right.unit);
  if (right.plain_literal) return give_unit(right, left.unit);
  if (left.unit == right.unit) return {};
  return fail_at(right.place,
                 fmt::format("the units do not go together: the left side is {}, the right side {}",
                             name_of_unit(left.unit), name_of_unit(right.unit)),
                 fmt::format("for example {}", example_of_unit(left.unit)));
}

std::unique_ptr<NumberNode> join(Kind kind, std::unique_ptr<NumberNode> left, std::unique_ptr<NumberNode> right) {
  auto node = std::make_unique<NumberNode>();
  node->kind = kind;
  node->place = left->place;
  node->unit = left->unit;
  node->plain_literal = left->plain_literal && right->plain_literal;
  node->left = std::move(left);
  node->right = std::move(right);
  return node;
}

/// "50%" beside memory_used: half of memory_total.
Parsed<std::unique_ptr<NumberNode>> share_of_whole(const NumberNode& percentage, const Variable& variable) {
  const Variable* whole = variable.whole.empty() ? nullptr : find_variable(variable.whole);
  if (whole == nullptr)
    return fail_at(
        percentage.place,
        fmt::format("a percentage makes no sense beside '{}', which is {}", variable.name, name_of_unit(variable.unit)),
        fmt::format("for example {}", example_of_unit(variable.unit)));
  auto factor = copy_of(percentage);
  factor->literal /= 100;
  auto total = std::make_unique<NumberNode>();
  total->kind = Kind::variable;
  total->variable = whole;
  auto share = join(Kind::multiply, std::move(factor), std::move(total));
  share->unit = whole->unit;
  return share;
}

Parsed<std::unique_ptr<NumberNode>> product(std::unique_ptr<NumberNode> left, std::unique_ptr<NumberNode> right) {
  for (NumberNode* side : {left.get(), right.get()}) {
    if (!is_percentage(*side)) continue;
    side->literal /= 100;
    side->unit = {};
    side->plain_literal = true;
  }
  if (!left->unit.empty() && !right->unit.empty())
    return fail_at(right->place, fmt::format("{} cannot be multiplied by {}", left->unit, right->unit));
  const std::string_view unit = left->unit.empty() ? right->unit : left->unit;
  auto node = join(Kind::multiply, std::move(left), std::move(right));
  node->unit = unit;
  return node;
}

Parsed<std::unique_ptr<NumberNode>> quotient(std::unique_ptr<NumberNode> left, std::unique_ptr<NumberNode> right) {
  const bool same = left->unit == right->unit;
  if (!same && !right->unit.empty())
    return fail_at(right->place, fmt::format("{} cannot be divided by {}",
                                             left->unit.empty() ? "a plain number" : left->unit, right->unit));
  auto node = join(Kind::divide, std::move(left), std::move(right));
  if (same) node->unit = {};
  return node;
}

/// The reasons that a word stands for; itself for other variables.
std::vector<std::string> meanings(const Variable& variable, const std::string& word) {
  if (variable.name == "throttle") {
    for (const ThrottleGroup& group : throttle_groups()) {
      if (group.word == word) return {group.reasons.begin(), group.reasons.end()};
    }
  }
  return {word};
}

std::vector<std::string> words_of(const Variable& variable) {
  std::vector<std::string> words(variable.values.begin(), variable.values.end());
  if (variable.name == "throttle") {
    for (const ThrottleGroup& group : throttle_groups()) words.emplace_back(group.word);
  }
  return words;
}

Node slowdown_reasons(const Variable& throttle) {
  Node node;
  node.kind = Node::Kind::text;
  node.variable = &throttle;
  for (const std::string_view name : throttle.values) {
    const auto reason = facts::throttle_reason_from(name);
    if (reason && facts::is_slowdown(*reason)) node.words.emplace_back(name);
  }
  return node;
}

Node presence_of(const Variable& variable) {
  Node node;
  node.kind = Node::Kind::present;
  node.variable = &variable;
  return node;
}

Node compared(Comparison comparison, std::unique_ptr<NumberNode> left, std::unique_ptr<NumberNode> right) {
  Node node;
  node.kind = Node::Kind::compare;
  node.comparison = comparison;
  node.left = std::move(left);
  node.right = std::move(right);
  return node;
}

/// The share that a percentage means beside a variable; the other number itself where there is no such pair.
Parsed<std::unique_ptr<NumberNode>> beside(const NumberNode& number, const NumberNode& other) {
  if (is_percentage(number) && other.kind == Kind::variable && other.unit != "%")
    return share_of_whole(number, *other.variable);
  return copy_of(number);
}

}  // namespace

std::unique_ptr<NumberNode> copy_of(const NumberNode& node) {
  auto copy = std::make_unique<NumberNode>();
  copy->kind = node.kind;
  copy->literal = node.literal;
  copy->variable = node.variable;
  copy->unit = node.unit;
  copy->plain_literal = node.plain_literal;
  copy->place = node.place;
  if (node.left) copy->left = copy_of(*node.left);
  if (node.right) copy->right = copy_of(*node.right);
  return copy;
}

Node opposite_of(Node node) {
  Node opposite;
  opposite.kind = Node::Kind::opposite;
  opposite.children.push_back(std::move(node));
  return opposite;
}

Parsed<Node> to_condition(Operand operand) {
  if (operand.condition) return std::move(*operand.condition);
  if (operand.several != nullptr) {
    return operand.several->name == "throttle" ? slowdown_reasons(*operand.several) : presence_of(*operand.several);
  }
  if (operand.number->kind == Kind::variable && operand.number->unit.empty())
    return presence_of(*operand.number->variable);
  if (operand.number->kind == Kind::increase)
    return compared(Comparison::greater, std::move(operand.number), std::make_unique<NumberNode>());
  if (operand.number->kind == Kind::variable)
    return fail_at(
        operand.place, fmt::format("'{}' alone is no condition", operand.number->variable->name),
        fmt::format("compare it: {} > {}", operand.number->variable->name, example_of_unit(operand.number->unit)));
  return fail_at(operand.place, "a number alone is no condition", "compare it: temperature > 85");
}

Parsed<std::unique_ptr<NumberNode>> to_number(Operand operand) {
  if (operand.number) return std::move(operand.number);
  if (operand.several != nullptr)
    return fail_at(operand.place,
                   fmt::format("'{}' {}", operand.several->name,
                               operand.several->is_text() ? "is a text, not a number"
                                                          : "has several values: it can only be compared"));
  return fail_at(operand.place, "a condition stands where a number is expected", "join conditions with 'and' or 'or'");
}

Parsed<std::unique_ptr<NumberNode>> calculation(std::string_view sign, std::unique_ptr<NumberNode> left,
                                                std::unique_ptr<NumberNode> right) {
  if (sign == "*") return product(std::move(left), std::move(right));
  if (sign == "/") return quotient(std::move(left), std::move(right));
  GPUWARDEN_CHECK(unify(*left, *right));
  return join(sign == "+" ? Kind::add : Kind::subtract, std::move(left), std::move(right));
}

Parsed<Node> comparison_of(Comparison comparison, const NumberNode& left, const NumberNode& right) {
  GPUWARDEN_TRY(auto lower, beside(left, right));
  GPUWARDEN_TRY(auto upper, beside(right, left));
  GPUWARDEN_CHECK(unify(*lower, *upper));
  return compared(comparison, std::move(lower), std::move(upper));
}

Parsed<Node> comparison_of(Comparison comparison, const Variable& several, const NumberNode& right) {
  NumberNode left;
  left.kind = Kind::variable;
  left.variable = &several;
  left.unit = several.unit;
  left.place = right.place;
  GPUWARDEN_TRY(Node node, comparison_of(comparison, left, right));
  node.kind = Node::Kind::several;
  node.variable = &several;
  node.left.reset();
  return node;
}

Parsed<Node> text_comparison(const Variable& variable, bool contains, const Token& word) {
  Node node;
  node.kind = contains ? Node::Kind::contains : Node::Kind::text;
  node.variable = &variable;
  if (contains || variable.values.empty()) {
    node.words = {std::string(word.text)};
    return node;
  }
  const std::string name = to_lower(word.text);
  const std::vector<std::string> known = words_of(variable);
  if (std::ranges::find(known, name) == known.end()) {
    const std::string meant = closest_match(name, known);
    const std::string what(variable.name == "throttle" ? "throttle reason" : variable.name);
    return fail_at(word.place, fmt::format("unknown {} '{}'", what, printable(word.text)),
                   meant.empty() ? fmt::format("one of {}", gpuwarden::join(known, ", "))
                                 : fmt::format("did you mean '{}'?", meant));
  }
  node.words = meanings(variable, name);
  return node;
}

}  // namespace gpuwarden::telemetry
