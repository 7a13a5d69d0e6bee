// SPDX-License-Identifier: Apache-2.0
// What a condition comes to. What is not known makes neither it nor its opposite true (Kleene's logic).
#include "gpuwarden/telemetry/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "telemetry/expression_node.hpp"
#include "telemetry/expression_parser.hpp"

namespace gpuwarden::telemetry {
namespace {

using Node = Expression::Node;

bool compares(Comparison comparison, double left, double right) {
  switch (comparison) {
    case Comparison::less:
      return left < right;
    case Comparison::at_most:
      return left <= right;
    case Comparison::greater:
      return left > right;
    case Comparison::at_least:
      return left >= right;
    default:
      return left == right;
  }
}

/// A counter that is lower than before was set back; it has counted on from 0.
std::optional<double> increase_of(const Variable& variable, const Subject& subject) {
  const facts::Metric* metric = facts::find_metric(variable.name);
  if (metric == nullptr || subject.gpu == nullptr || subject.before == nullptr) return std::nullopt;
  const auto now = facts::value_of(*metric, subject.gpu->sample);
  const auto before = facts::value_of(*metric, *subject.before);
  if (!now || !before) return std::nullopt;
  return *now < *before ? *now : *now - *before;
}

std::optional<double> calculate(NumberNode::Kind kind, double left, double right) {
  double result = 0;
  if (kind == NumberNode::Kind::add) result = left + right;
  if (kind == NumberNode::Kind::subtract) result = left - right;
  if (kind == NumberNode::Kind::multiply) result = left * right;
  if (kind == NumberNode::Kind::divide) result = left / right;
  return std::isfinite(result) ? std::optional(result) : std::nullopt;
}

/// `one` of those that are known decides; else it is known only if all are.
template <class List, class Holds>
std::optional<bool> holds_for_one(const List& list, Holds holds) {
  if (std::ranges::any_of(list.known, holds)) return true;
  return list.all_known ? std::optional(false) : std::nullopt;
}

/// Ends with the first child that decides: a false one of "all", a true one of "any".
std::optional<bool> truth_of_children(const Node& node, const Subject& subject, bool decides) {
  bool unknown = false;
  for (const Node& child : node.children) {
    const auto truth = truth_of(child, subject);
    if (truth == decides) return decides;
    unknown = unknown || !truth;
  }
  return unknown ? std::nullopt : std::optional(!decides);
}

std::optional<bool> truth_of_comparison(const Node& node, const Subject& subject) {
  const auto left = number_of(*node.left, subject);
  const auto right = number_of(*node.right, subject);
  if (!left || !right) return std::nullopt;
  return compares(node.comparison, *left, *right);
}

std::optional<bool> truth_of_several(const Node& node, const Subject& subject) {
  const auto right = number_of(*node.right, subject);
  const Value value = value_of(*node.variable, subject);
  const auto* numbers = std::get_if<Numbers>(&value);
  if (!right || numbers == nullptr) return std::nullopt;
  return holds_for_one(*numbers, [&](double number) { return compares(node.comparison, number, *right); });
}

std::optional<bool> truth_of_texts(const Node& node, const Subject& subject) {
  const Value value = value_of(*node.variable, subject);
  const auto* texts = std::get_if<Texts>(&value);
  if (texts == nullptr) return std::nullopt;
  return holds_for_one(*texts, [&](const std::string& text) {
    return std::ranges::any_of(node.words, [&](const std::string& word) {
      return node.kind == Node::Kind::text ? text == word : contains_ignoring_case(text, word);
    });
  });
}

std::optional<bool> is_present(const Node& node, const Subject& subject) {
  const Value value = value_of(*node.variable, subject);
  const auto any = [](const auto&) { return true; };
  if (const auto* number = std::get_if<double>(&value)) return *number != 0;
  if (const auto* texts = std::get_if<Texts>(&value)) return holds_for_one(*texts, any);
  if (const auto* numbers = std::get_if<Numbers>(&value)) return holds_for_one(*numbers, any);
  return std::nullopt;
}

}  // namespace

std::optional<double> number_of(const NumberNode& node, const Subject& subject) {
  if (node.kind == NumberNode::Kind::literal) return node.literal;
  if (node.kind == NumberNode::Kind::increase) return increase_of(*node.variable, subject);
  if (node.kind == NumberNode::Kind::variable) {
    const Value value = value_of(*node.variable, subject);
    const auto* number = std::get_if<double>(&value);
    return number != nullptr ? std::optional(*number) : std::nullopt;
  }
  const auto left = number_of(*node.left, subject);
  const auto right = number_of(*node.right, subject);
  if (!left || !right) return std::nullopt;
  return calculate(node.kind, *left, *right);
}

std::optional<bool> truth_of(const Node& node, const Subject& subject) {
  switch (node.kind) {
    case Node::Kind::all:
      return truth_of_children(node, subject, false);
    case Node::Kind::any:
      return truth_of_children(node, subject, true);
    case Node::Kind::opposite: {
      const auto truth = truth_of(node.children.front(), subject);
      return truth ? std::optional(!*truth) : std::nullopt;
    }
    case Node::Kind::compare:
      return truth_of_comparison(node, subject);
    case Node::Kind::several:
      return truth_of_several(node, subject);
    case Node::Kind::present:
      return is_present(node, subject);
    default:
      return truth_of_texts(node, subject);
  }
}

Result<Expression> Expression::parse(std::string_view text) {
  auto parsed = parse_expression(text);
  if (parsed) return std::move(*parsed);
  const ParseFailure& failure = parsed.error();
  return fail(ErrorCode::invalid_argument, fmt::format("column {}: {}", failure.place + 1, failure.what), failure.hint);
}

std::optional<bool> Expression::holds(const Subject& subject) const {
  return root_ ? truth_of(*root_, subject) : std::nullopt;
}

}  // namespace gpuwarden::telemetry
