// SPDX-License-Identifier: Apache-2.0
#include "telemetry/alert_rule_text.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "telemetry/expression_parser.hpp"

namespace gpuwarden::telemetry {
namespace {

/// Where the word "for" stands; `npos` where it does not.
std::size_t place_of_for(std::string_view text) {
  Lexer lexer(text);
  std::size_t place = std::string_view::npos;
  while (lexer.peek().kind != Token::Kind::end) {
    const Token token = lexer.take();
    if (token.kind == Token::Kind::name && to_lower(token.text) == "for") place = token.place;
  }
  return place;
}

bool is_gap_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

}  // namespace

std::expected<TimedCondition, ParseFailure> parse_timed_condition(std::string_view text) {
  const std::size_t place = place_of_for(text);
  TimedCondition timed;
  if (place != std::string_view::npos) {
    const auto time = parse_duration(trim(text.substr(place + 3)));
    if (!time) return std::unexpected(ParseFailure{place, time.error().message, "for example 'for 30s' or 'for 10m'"});
    timed.holds_for = *time;
  }
  GPUWARDEN_TRY(timed.condition, parse_expression(text.substr(0, place)));
  if (timed.holds_for && timed.condition.about_events())
    return std::unexpected(ParseFailure{place, "an event is over when it has happened and cannot last",
                                        "leave out 'for'; 'clear_for' says how long its alert lasts"});
  return timed;
}

std::string fill_gaps(std::string_view message,
                      const std::function<std::optional<std::string>(std::string_view)>& fill) {
  std::string filled;
  while (!message.empty()) {
    const std::size_t open = std::min(message.find('{'), message.size());
    filled += message.substr(0, open);
    message.remove_prefix(open);
    const std::size_t close = message.find('}');
    const bool gap = close != std::string_view::npos && close > 0 && is_gap_name(message.substr(1, close - 1));
    const auto text = gap ? fill(message.substr(1, close - 1)) : std::nullopt;
    const std::size_t taken = text ? close + 1 : std::min<std::size_t>(1, message.size());
    filled += text ? std::string_view(*text) : message.substr(0, taken);
    message.remove_prefix(taken);
  }
  return filled;
}

std::string unknown_gap(std::string_view message) {
  std::string unknown;
  fill_gaps(message, [&](std::string_view name) -> std::optional<std::string> {
    if (unknown.empty() && name != "value" && name != "state_words" && find_variable(name) == nullptr) unknown = name;
    return std::nullopt;
  });
  return unknown;
}

}  // namespace gpuwarden::telemetry
