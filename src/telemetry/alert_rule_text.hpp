// SPDX-License-Identifier: Apache-2.0
// The texts of an alert rule: a condition with its time, a message with its gaps.
#pragma once

#include <chrono>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/telemetry/alert_rules.hpp"
#include "telemetry/expression_lexer.hpp"

namespace gpuwarden::telemetry {

/// How long an event's alert lasts after the event, where its rule does not say.
inline constexpr std::chrono::minutes kEventLasts(10);

struct TimedCondition {
  Expression condition;
  std::optional<std::chrono::milliseconds> holds_for;
};

/// "EXPR" or "EXPR for 30s".
std::expected<TimedCondition, ParseFailure> parse_timed_condition(std::string_view text);

/// The gaps of a message ("{gpu}") filled by `fill`, which gives nothing for a name that it does not know. Braces
/// around what is no name stay.
std::string fill_gaps(std::string_view message,
                      const std::function<std::optional<std::string>(std::string_view)>& fill);
/// The first gap that names no variable; empty where there is none.
std::string unknown_gap(std::string_view message);

}  // namespace gpuwarden::telemetry
