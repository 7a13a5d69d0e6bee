// SPDX-License-Identifier: Apache-2.0
#include "telemetry/expression_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "telemetry/expression_operand.hpp"
#include "telemetry/expression_units.hpp"

namespace gpuwarden::telemetry {
namespace {

using Node = Expression::Node;
using Number = std::unique_ptr<NumberNode>;

constexpr std::size_t kLongest = 4096;
constexpr int kDeepest = 32;

/// Words that are no names.
constexpr auto kKeywords = std::to_array<std::string_view>({"and", "or", "not", "in", "while", "for", "increase"});

struct Operator {
  std::string_view sign;
  Comparison comparison;
  Comparison mirrored;  ///< with its sides exchanged
  bool negated = false;
};
constexpr auto kOperators = std::to_array<Operator>({
    {"<", Comparison::less, Comparison::greater},
    {"<=", Comparison::at_most, Comparison::at_least},
    {">", Comparison::greater, Comparison::less},
    {">=", Comparison::at_least, Comparison::at_most},
    {"==", Comparison::equal, Comparison::equal},
    {"=", Comparison::equal, Comparison::equal},
    {"!=", Comparison::equal, Comparison::equal, true},
});

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Parsed<Node> parse() {
    GPUWARDEN_TRY(Operand whole, disjunction());
    if (lexer_.peek().kind != Token::Kind::end) return unexpected_token("the end or 'and'");
    return to_condition(std::move(whole));
  }

  std::vector<const Variable*> variables;
  bool increases = false;

 private:
  bool next_is(std::string_view text) {
    const Token& next = lexer_.peek();
    const bool word = next.kind == Token::Kind::name || next.kind == Token::Kind::sign;
    return word && to_lower(next.text) == text;
  }
  bool next_is_one_of(std::initializer_list<std::string_view> texts) {
    return std::ranges::any_of(texts, [this](std::string_view text) { return next_is(text); });
  }
  bool accept(std::string_view text) {
    if (!next_is(text)) return false;
    lexer_.take();
    return true;
  }
  Parsed<std::monostate> expect(std::string_view text) {
    if (accept(text)) return {};
    return unexpected_token(fmt::format("'{}'", text));
  }

  std::unexpected<ParseFailure> unexpected_token(std::string_view wanted) {
    const Token& next = lexer_.peek();
    if (next.kind == Token::Kind::end) return fail_at(next.place, fmt::format("it ends where {} is expected", wanted));
    const char first = next.text.empty() ? ' ' : next.text.front();
    if (next.kind == Token::Kind::unreadable && (first == '"' || first == '\''))
      return fail_at(next.place, "the quote is not closed");
    return fail_at(next.place, fmt::format("'{}' stands where {} is expected", printable(next.text), wanted));
  }

  /// Conditions joined by `words`, each read by `part`.
  Parsed<Operand> joined(Node::Kind kind, std::initializer_list<std::string_view> words,
                         Parsed<Operand> (Parser::*part)()) {
    GPUWARDEN_TRY(Operand first, (this->*part)());
    if (!next_is_one_of(words)) return first;
    const std::size_t place = first.place;
    Node node;
    node.kind = kind;
    GPUWARDEN_TRY(Node child, to_condition(std::move(first)));
    node.children.push_back(std::move(child));
    while (next_is_one_of(words)) {
      lexer_.take();
      GPUWARDEN_TRY(Operand next, (this->*part)());
      GPUWARDEN_TRY(Node other, to_condition(std::move(next)));
      node.children.push_back(std::move(other));
    }
    return Operand{nullptr, std::move(node), nullptr, place};
  }
  Parsed<Operand> disjunction() { return joined(Node::Kind::any, {"or", "|", "||"}, &Parser::conjunction); }
  Parsed<Operand> conjunction() {
    return joined(Node::Kind::all, {"and", "&", "&&", "while"}, &Parser::possibly_negated);
  }

  Parsed<Operand> possibly_negated() {
    const std::size_t place = lexer_.peek().place;
    if (!accept("not") && !accept("!")) return comparison();
    GPUWARDEN_CHECK(deeper(place));
    GPUWARDEN_TRY(Operand operand, possibly_negated());
    --depth_;
    GPUWARDEN_TRY(Node node, to_condition(std::move(operand)));
    return Operand{nullptr, opposite_of(std::move(node)), nullptr, place};
  }

  Parsed<std::monostate> deeper(std::size_t place) {
    if (++depth_ > kDeepest) return fail_at(place, fmt::format("nested more than {} deep", kDeepest));
    return {};
  }

  Parsed<Operand> comparison() {
    GPUWARDEN_TRY(Operand left, sum());
    if (left.condition) return left;
    const std::size_t place = left.place;
    std::optional<Node> node;
    if (left.several != nullptr && left.several->is_text()) {
      GPUWARDEN_TRY(node, compare_texts(*left.several));
    } else if (next_is_one_of({"in", "not"})) {
      GPUWARDEN_TRY(node, compare_with_list(left));
    } else if (const Operator* sign = next_operator()) {
      GPUWARDEN_TRY(node, compare_with_number(left, *sign));
    } else if (next_is("~") || next_is("!~")) {
      return fail_at(lexer_.peek().place, "'~' is for texts", "compare numbers with < > ==");
    }
    if (!node) return left;
    if (next_operator() != nullptr)
      return fail_at(lexer_.peek().place, "two comparisons in a row",
                     "join them: 60 < temperature and temperature < 80");
    return Operand{nullptr, std::move(node), nullptr, place};
  }

  const Operator* next_operator() {
    const Token& next = lexer_.peek();
    if (next.kind != Token::Kind::sign) return nullptr;
    const auto* const found = std::ranges::find(kOperators, next.text, &Operator::sign);
    return found == kOperators.end() ? nullptr : found;
  }

  static bool is_keyword(std::string_view word) {
    return std::ranges::find(kKeywords, to_lower(word)) != kKeywords.end();
  }

  /// Nothing where the variable stands alone.
  Parsed<std::optional<Node>> compare_texts(const Variable& variable) {
    const Token next = lexer_.peek();
    const bool word = next.kind == Token::Kind::name || next.kind == Token::Kind::quoted;
    if (variable.name == "throttle" && word && !is_keyword(next.text)) return text_word(variable, false, false);
    if (next_is_one_of({"in", "not"})) return text_list(variable);
    if (next_is_one_of({"~", "!~", "==", "=", "!="})) {
      // Nothing may look ahead: what stands behind the sign is a text.
      const std::string_view sign = lexer_.take().text;
      return text_word(variable, sign.ends_with('~'), sign.starts_with('!'));
    }
    if (next_operator() != nullptr)
      return fail_at(next.place, fmt::format("'{}' is a text", variable.name), "compare it with == != ~ or in");
    return std::optional<Node>();
  }

  Parsed<std::optional<Node>> text_word(const Variable& variable, bool contains, bool negated) {
    const Token word = lexer_.take_text();
    if (word.kind != Token::Kind::quoted) return unexpected_token("a text");
    GPUWARDEN_TRY(Node node, text_comparison(variable, contains, word));
    return std::optional(negated ? opposite_of(std::move(node)) : std::move(node));
  }

  /// Behind a variable: "in" or "not in"; whether it was "not in".
  Parsed<bool> list_begins() {
    const bool negated = accept("not");
    GPUWARDEN_CHECK(expect("in"));
    // Nothing may look behind the bracket: a text may stand there.
    if (!next_is("(")) return unexpected_token("'('");
    lexer_.take();
    return negated;
  }

  Parsed<std::optional<Node>> text_list(const Variable& variable) {
    GPUWARDEN_TRY(const bool negated, list_begins());
    Node any;
    any.kind = Node::Kind::any;
    do {
      GPUWARDEN_TRY(auto node, text_word(variable, false, false));
      any.children.push_back(std::move(*node));
    } while (accept(","));
    GPUWARDEN_CHECK(expect(")"));
    return std::optional(negated ? opposite_of(std::move(any)) : std::move(any));
  }

  static Parsed<Node> compare(Comparison comparison, const Operand& left, const NumberNode& right) {
    return left.several != nullptr ? comparison_of(comparison, *left.several, right)
                                   : comparison_of(comparison, *left.number, right);
  }

  Parsed<Node> compare_with_list(const Operand& left) {
    GPUWARDEN_TRY(const bool negated, list_begins());
    Node any;
    any.kind = Node::Kind::any;
    do {
      GPUWARDEN_TRY(Operand operand, sum());
      GPUWARDEN_TRY(const Number right, to_number(std::move(operand)));
      GPUWARDEN_TRY(Node node, compare(Comparison::equal, left, *right));
      any.children.push_back(std::move(node));
    } while (accept(","));
    GPUWARDEN_CHECK(expect(")"));
    return negated ? opposite_of(std::move(any)) : std::move(any);
  }

  Parsed<Node> compare_with_number(const Operand& left, const Operator& sign) {
    lexer_.take();
    GPUWARDEN_TRY(Operand right, sum());
    const bool exchanged = left.several == nullptr && right.several != nullptr && !right.several->is_text();
    if (exchanged) {
      GPUWARDEN_TRY(Node node, comparison_of(sign.mirrored, *right.several, *left.number));
      return sign.negated ? opposite_of(std::move(node)) : std::move(node);
    }
    GPUWARDEN_TRY(const Number number, to_number(std::move(right)));
    GPUWARDEN_TRY(Node node, compare(sign.comparison, left, *number));
    return sign.negated ? opposite_of(std::move(node)) : std::move(node);
  }

  /// Numbers joined by `signs`, each read by `part`.
  Parsed<Operand> calculated(std::initializer_list<std::string_view> signs, Parsed<Operand> (Parser::*part)()) {
    GPUWARDEN_TRY(Operand left, (this->*part)());
    while (next_is_one_of(signs)) {
      const std::string_view sign = lexer_.take().text;
      GPUWARDEN_TRY(Operand right, (this->*part)());
      const std::size_t place = left.place;
      GPUWARDEN_TRY(Number first, to_number(std::move(left)));
      GPUWARDEN_TRY(Number second, to_number(std::move(right)));
      GPUWARDEN_TRY(Number number, calculation(sign, std::move(first), std::move(second)));
      left = Operand{std::move(number), std::nullopt, nullptr, place};
    }
    return left;
  }
  Parsed<Operand> sum() { return calculated({"+", "-"}, &Parser::term); }
  Parsed<Operand> term() { return calculated({"*", "/"}, &Parser::factor); }

  Parsed<Operand> factor() {
    const Token next = lexer_.peek();
    if (accept("-")) return negative(next.place);
    if (accept("(")) return bracket(next.place);
    if (next.kind == Token::Kind::number) return literal();
    if (next.kind == Token::Kind::name && (!is_keyword(next.text) || next_is("increase"))) return name();
    if (next.kind == Token::Kind::quoted)
      return fail_at(next.place, "a text can only stand behind a comparison", "for example user == 'ann'");
    return unexpected_token("a name or a number");
  }

  Parsed<Operand> bracket(std::size_t place) {
    GPUWARDEN_CHECK(deeper(place));
    GPUWARDEN_TRY(Operand inner, disjunction());
    GPUWARDEN_CHECK(expect(")"));
    --depth_;
    inner.place = place;
    return inner;
  }

  Parsed<Operand> negative(std::size_t place) {
    GPUWARDEN_CHECK(deeper(place));
    GPUWARDEN_TRY(Operand operand, factor());
    --depth_;
    GPUWARDEN_TRY(Number number, to_number(std::move(operand)));
    if (number->kind == NumberNode::Kind::literal) {
      number->literal = -number->literal;
      return Operand{std::move(number), std::nullopt, nullptr, place};
    }
    auto nothing = std::make_unique<NumberNode>();
    nothing->unit = number->unit;
    nothing->place = place;
    GPUWARDEN_TRY(number, calculation("-", std::move(nothing), std::move(number)));
    return Operand{std::move(number), std::nullopt, nullptr, place};
  }

  Parsed<Operand> literal() {
    const Token token = lexer_.take();
    auto number = std::make_unique<NumberNode>();
    number->place = token.place;
    number->literal = token.number;
    number->plain_literal = token.unit.empty();
    if (!token.unit.empty()) {
      const UnitName* unit = find_unit(token.unit);
      if (unit == nullptr)
        return fail_at(token.place, fmt::format("unknown unit '{}'", printable(token.unit)),
                       "for example 50%, 300W, 85C, 1500MHz, 20GiB, 10GB/s");
      number->unit = unit->unit;
      number->literal *= unit->factor;
    }
    return Operand{std::move(number), std::nullopt, nullptr, token.place};
  }

  Parsed<const Variable*> variable() {
    const Token token = lexer_.take();
    const Variable* found = token.kind == Token::Kind::name ? find_variable(token.text) : nullptr;
    if (found == nullptr) {
      const std::string meant = closest_variable(token.text);
      return fail_at(
          token.place, fmt::format("unknown name '{}'", printable(token.text)),
          meant.empty() ? "the names are listed in docs/alerts.md" : fmt::format("did you mean '{}'?", meant));
    }
    if (std::ranges::find(variables, found) == variables.end()) variables.push_back(found);
    return found;
  }

  Parsed<Operand> name() {
    const std::size_t place = lexer_.peek().place;
    auto number = std::make_unique<NumberNode>();
    number->place = place;
    number->kind = NumberNode::Kind::variable;
    const bool increase = accept("increase");
    if (increase) GPUWARDEN_CHECK(expect("("));
    GPUWARDEN_TRY(number->variable, variable());
    if (increase) {
      GPUWARDEN_CHECK(expect(")"));
      if (number->variable->kind != VariableKind::counter)
        return fail_at(place, fmt::format("'{}' is no counter", number->variable->name),
                       "increase() is for what only grows, such as pcie_replays");
      increases = true;
      number->kind = NumberNode::Kind::increase;
    }
    if (number->variable->is_several()) return Operand{nullptr, std::nullopt, number->variable, place};
    number->unit = number->variable->unit;
    return Operand{std::move(number), std::nullopt, nullptr, place};
  }

  Lexer lexer_;
  int depth_ = 0;
};

}  // namespace

std::expected<Expression, ParseFailure> parse_expression(std::string_view text) {
  if (text.size() > kLongest) return fail_at(kLongest, fmt::format("longer than {} characters", kLongest));
  Parser parser(text);
  GPUWARDEN_TRY(Node root, parser.parse());
  Expression expression;
  expression.text_ = trim(text);
  expression.root_ = std::make_shared<const Node>(std::move(root));
  expression.variables_ = std::move(parser.variables);
  expression.about_increases_ = parser.increases;
  expression.about_events_ = parser.increases || std::ranges::any_of(expression.variables_, &Variable::of_events);
  expression.about_processes_ = std::ranges::any_of(expression.variables_, &Variable::of_process);
  return expression;
}

}  // namespace gpuwarden::telemetry
