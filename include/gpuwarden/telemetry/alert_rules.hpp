// SPDX-License-Identifier: Apache-2.0
// Alert rules: built in, and a user's in YAML.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/expression.hpp"

namespace gpuwarden::telemetry {

enum class AlertLevel { info, warning, error, critical };
std::string_view to_string(AlertLevel level);
std::optional<AlertLevel> alert_level_from(std::string_view name);

/// In AlertRule::part_of.
inline constexpr std::string_view kAnyError = "*";

/// Where alerts go.
struct SinkSpec {
  enum class Kind { log, command, webhook };
  std::string name;
  Kind kind = Kind::log;
  /// log: a file, or empty for the program's own log; webhook: a URL.
  std::string target;
  std::vector<std::string> command;  ///< argv; the alert's JSON on its standard input
  AlertLevel at_least = AlertLevel::info;
  /// What a webhook is sent: the alert as JSON, or a line of text as chats want it.
  enum class Body { json, slack, discord };
  Body body = Body::json;
};

struct AlertRule {
  std::string id;  ///< "hot"
  Expression when;
  std::chrono::milliseconds holds_for{};  ///< how long `when` must have held without a break
  /// What ends it; nothing: that `when` does not hold. Gives hysteresis (`temperature < slowdown - 8`).
  std::optional<Expression> until;
  /// How long its end must have held; 10 minutes for events, which are over as soon as they have happened.
  std::chrono::milliseconds clear_for{};
  AlertLevel level = AlertLevel::warning;
  /// What it means; {value} (of the first number in `when`) and {NAME} of any variable are filled in.
  std::string message;
  std::string next_step;                            ///< may be empty
  std::optional<std::chrono::milliseconds> repeat;  ///< told again while it lasts; nothing: once
  std::vector<std::string> sinks;                   ///< names of sinks; empty: all
  /// Rules from whose alerts on the same GPU this one follows (kAnyError: from any of level ERROR or CRITICAL); its
  /// alert is folded into theirs unless it is worse.
  std::vector<std::string> part_of;
  bool built_in = false;
  std::string source;  ///< of a built-in rule: where its threshold and level are from
};

/// Rules and where their alerts go.
struct AlertConfig {
  std::vector<AlertRule> rules;
  std::vector<SinkSpec> sinks;
};

/// The rules that are there without a file: temperature by each GPU's own thresholds, Xids that mean a broken GPU,
/// uncorrectable memory errors, failed row remapping, lost GPUs, throttling that lasts, memory that is full, GPUs that
/// idle while held. Each row names its source.
const std::vector<AlertRule>& built_in_rules();

/// Reads a file's text:
///     rules:
///       - id: hot
///         when: temperature > slowdown - 5 for 10s
///         level: warning
///         until: temperature < slowdown - 8
///         repeat: 1h
///     sinks:
///       - webhook: https://example.org/hook
///     built_in: false          # or a list of ids that are left out
/// Adds the built-in rules it leaves in; a rule with a built-in rule's id replaces it. An empty text leaves the
/// built-in ones. Fails with invalid_argument, "NAME:LINE:COLUMN: what". docs/alerts.md has all keys.
Result<AlertConfig> parse_alert_rules(std::string_view text, std::string_view name);

}  // namespace gpuwarden::telemetry
