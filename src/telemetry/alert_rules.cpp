// SPDX-License-Identifier: Apache-2.0
// The alert rules of a YAML file.
#include "gpuwarden/telemetry/alert_rules.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <set>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/yaml/document.hpp"
#include "telemetry/alert_rule_text.hpp"
#include "telemetry/expression_parser.hpp"

namespace gpuwarden::telemetry {
namespace {

using std::chrono::milliseconds;

constexpr auto kLevels = std::to_array<std::string_view>({"INFO", "WARNING", "ERROR", "CRITICAL"});
constexpr std::size_t kMostRules = 1000;
constexpr std::size_t kMostSinks = 64;

bool is_there(const YAML::Node& node) { return node.IsDefined() && !node.IsNull(); }

/// Reads values of a map, with the place in the file of what is wrong.
class RuleFile {
 public:
  explicit RuleFile(std::string_view name) : name_(name) {}

  Error wrong(const YAML::Node& at, std::string_view what, std::string hint = {}) const {
    return yaml::error_at(at, name_, what, std::move(hint));
  }

  Result<std::optional<std::string>> text(const YAML::Node& map, const std::string& key) const {
    const YAML::Node at = yaml::child(map, key);
    if (!is_there(at)) return std::nullopt;
    if (!at.IsScalar()) return std::unexpected(wrong(at, fmt::format("{} should be a text", key)));
    return at.Scalar();
  }

  Result<std::optional<milliseconds>> time(const YAML::Node& map, const std::string& key) const {
    GPUWARDEN_TRY(const auto written, text(map, key));
    if (!written) return std::nullopt;
    const auto time = parse_duration(*written);
    if (!time) return std::unexpected(wrong(yaml::child(map, key), time.error().message, "for example 30s or 10m"));
    return *time;
  }

  Result<std::vector<std::string>> texts(const YAML::Node& map, const std::string& key) const {
    const YAML::Node at = yaml::child(map, key);
    if (!is_there(at)) return std::vector<std::string>{};
    if (at.IsScalar()) return std::vector<std::string>{at.Scalar()};
    std::vector<std::string> list;
    for (const auto& entry : at) {
      if (at.IsMap() || !entry.IsScalar())
        return std::unexpected(wrong(at, fmt::format("{} should be a list of texts", key)));
      list.push_back(entry.Scalar());
    }
    return list;
  }

  Result<AlertLevel> level(const YAML::Node& map, const std::string& key, AlertLevel otherwise) const {
    GPUWARDEN_TRY(const auto written, text(map, key));
    if (!written) return otherwise;
    const auto level = alert_level_from(*written);
    if (!level)
      return std::unexpected(wrong(yaml::child(map, key), fmt::format("unknown level '{}'", printable(*written)),
                                   "one of INFO, WARNING, ERROR, CRITICAL"));
    return *level;
  }

  /// What is wrong in a condition; the column is that of the file where the text stands in one line.
  std::unexpected<Error> in_condition(const YAML::Node& at, const ParseFailure& failure) const {
    const bool one_line = at.Scalar().find('\n') == std::string::npos;
    const int quote = at.Tag() == "!" ? 1 : 0;
    const auto column = static_cast<int>(one_line ? failure.place : 0) + quote;
    const YAML::Mark mark = at.Mark();
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}:{}: {}", name_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + column + 1,
                            failure.what),
                failure.hint);
  }

  std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

bool is_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 &&
         id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") ==
             std::string_view::npos;
}

Result<void> read_condition(const RuleFile& file, const YAML::Node& map, AlertRule& rule) {
  GPUWARDEN_TRY(const auto when, file.text(map, "when"));
  if (!when)
    return std::unexpected(
        file.wrong(map, fmt::format("rule '{}' has no condition", rule.id), "for example when: temperature > 85"));
  const YAML::Node at = yaml::child(map, "when");
  auto timed = parse_timed_condition(*when);
  if (!timed) return file.in_condition(at, timed.error());
  GPUWARDEN_TRY(const auto beside, file.time(map, "for"));
  if (beside && timed->holds_for)
    return std::unexpected(file.wrong(yaml::child(map, "for"), "the time is given twice", "here and in 'when'"));
  if (beside && timed->condition.about_events())
    return std::unexpected(file.wrong(yaml::child(map, "for"), "an event is over when it has happened and cannot last",
                                      "'clear_for' says how long its alert lasts"));
  rule.holds_for = timed->holds_for.value_or(beside.value_or(milliseconds(0)));
  rule.when = std::move(timed->condition);
  return {};
}

Result<void> read_end(const RuleFile& file, const YAML::Node& map, AlertRule& rule) {
  GPUWARDEN_TRY(const auto until, file.text(map, "until"));
  GPUWARDEN_TRY(const auto clear_for, file.time(map, "clear_for"));
  const YAML::Node at = yaml::child(map, "until");
  if (until) {
    auto timed = parse_timed_condition(*until);
    if (!timed) return file.in_condition(at, timed.error());
    if (timed->holds_for && clear_for)
      return std::unexpected(
          file.wrong(yaml::child(map, "clear_for"), "the time is given twice", "here and in 'until'"));
    if (timed->holds_for) rule.clear_for = *timed->holds_for;
    rule.until = std::move(timed->condition);
  }
  if (clear_for) rule.clear_for = *clear_for;
  const bool said = clear_for || rule.clear_for.count() > 0;
  if (!said && rule.when.about_events()) rule.clear_for = kEventLasts;
  return {};
}

Result<void> read_words(const RuleFile& file, const YAML::Node& map, AlertRule& rule) {
  GPUWARDEN_TRY(const auto message, file.text(map, "message"));
  GPUWARDEN_TRY(const auto next_step, file.text(map, "next_step"));
  rule.message = message.value_or("GPU {gpu}: " + rule.when.text());
  rule.next_step = next_step.value_or("");
  for (const char* const key : {"message", "next_step"}) {
    const std::string gap = unknown_gap(key == std::string_view("message") ? rule.message : rule.next_step);
    if (gap.empty()) continue;
    const std::string meant = closest_variable(gap);
    return std::unexpected(file.wrong(yaml::child(map, key), fmt::format("unknown name '{{{}}}' in {}", gap, key),
                                      meant.empty() ? "" : fmt::format("did you mean '{{{}}}'?", meant)));
  }
  return {};
}

Result<AlertRule> read_rule(const RuleFile& file, const YAML::Node& map) {
  GPUWARDEN_CHECK(yaml::check_keys(
      map, file.name(), "a rule",
      {"id", "when", "for", "until", "clear_for", "level", "message", "next_step", "repeat", "sinks", "part_of"}));
  AlertRule rule;
  GPUWARDEN_TRY(const auto id, file.text(map, "id"));
  if (!id) return std::unexpected(file.wrong(map, "a rule has no id", "for example id: hot"));
  if (!is_id(*id))
    return std::unexpected(file.wrong(yaml::child(map, "id"), fmt::format("'{}' is not a valid id", printable(*id)),
                                      "1 to 64 letters, digits, '_', '-' and '.'"));
  rule.id = *id;
  GPUWARDEN_CHECK(read_condition(file, map, rule));
  GPUWARDEN_CHECK(read_end(file, map, rule));
  GPUWARDEN_CHECK(read_words(file, map, rule));
  GPUWARDEN_TRY(rule.level, file.level(map, "level", AlertLevel::warning));
  GPUWARDEN_TRY(rule.repeat, file.time(map, "repeat"));
  if (rule.repeat && *rule.repeat < std::chrono::seconds(1))
    return std::unexpected(file.wrong(yaml::child(map, "repeat"), "repeat must be at least 1s"));
  GPUWARDEN_TRY(rule.sinks, file.texts(map, "sinks"));
  GPUWARDEN_TRY(rule.part_of, file.texts(map, "part_of"));
  return rule;
}

bool is_web_address(const std::string& url) {
  const std::string lower = to_lower(url.substr(0, 8));
  const std::size_t scheme = lower.starts_with("https://") ? 8 : lower.starts_with("http://") ? 7 : 0;
  return scheme > 0 && url.size() > scheme && printable(url) == url && url.find_first_of(" \"<>") == std::string::npos;
}

Result<void> read_webhook(const RuleFile& file, const YAML::Node& map, SinkSpec& sink) {
  sink.kind = SinkSpec::Kind::webhook;
  GPUWARDEN_TRY(const auto url, file.text(map, "webhook"));
  sink.target = url.value_or("");
  if (!is_web_address(sink.target))
    return std::unexpected(file.wrong(yaml::child(map, "webhook"), "webhook should be an http or https URL",
                                      "for example webhook: https://example.org/hook"));
  GPUWARDEN_TRY(const auto body, file.text(map, "body"));
  if (body == "slack") {
    sink.body = SinkSpec::Body::slack;
  } else if (body == "discord") {
    sink.body = SinkSpec::Body::discord;
  } else if (body && body != "json") {
    return std::unexpected(file.wrong(yaml::child(map, "body"), fmt::format("unknown body '{}'", printable(*body)),
                                      "one of json, slack, discord"));
  }
  return {};
}

Result<void> read_kind(const RuleFile& file, const YAML::Node& map, SinkSpec& sink) {
  int kinds = 0;
  for (const char* const key : {"log", "command", "webhook"}) kinds += yaml::child(map, key).IsDefined() ? 1 : 0;
  if (kinds != 1)
    return std::unexpected(
        file.wrong(map, "a sink is one of log, command and webhook", "for example - log: alerts.log"));
  if (yaml::child(map, "webhook").IsDefined()) return read_webhook(file, map, sink);
  if (yaml::child(map, "body").IsDefined())
    return std::unexpected(file.wrong(yaml::child(map, "body"), "only a webhook has a body"));
  if (yaml::child(map, "command").IsDefined()) {
    sink.kind = SinkSpec::Kind::command;
    GPUWARDEN_TRY(sink.command, file.texts(map, "command"));
    // One text is a line for the shell, as in crontab and systemd's neighbours.
    if (yaml::child(map, "command").IsScalar()) sink.command = {"/bin/sh", "-c", sink.command.front()};
    if (sink.command.empty() || sink.command.front().empty())
      return std::unexpected(file.wrong(yaml::child(map, "command"), "command is empty", "for example [mail, root]"));
    return {};
  }
  GPUWARDEN_TRY(const auto target, file.text(map, "log"));
  sink.target = target.value_or("");
  return {};
}

Result<SinkSpec> read_sink(const RuleFile& file, const YAML::Node& node) {
  SinkSpec sink;
  if (node.IsScalar() && node.Scalar() == "log") return sink;
  GPUWARDEN_CHECK(
      yaml::check_keys(node, file.name(), "a sink", {"name", "log", "command", "webhook", "body", "at_least"}));
  GPUWARDEN_CHECK(read_kind(file, node, sink));
  GPUWARDEN_TRY(sink.at_least, file.level(node, "at_least", AlertLevel::info));
  GPUWARDEN_TRY(const auto name, file.text(node, "name"));
  sink.name = name.value_or("");
  if (name && !is_id(*name))
    return std::unexpected(file.wrong(yaml::child(node, "name"),
                                      fmt::format("'{}' is not a valid name", printable(*name)),
                                      "1 to 64 letters, digits, '_', '-' and '.'"));
  return sink;
}

/// The entries of a list under a key, each read by `read`.
template <class T>
Result<std::vector<T>> read_list(const RuleFile& file, const YAML::Node& root, const std::string& key,
                                 Result<T> (*read)(const RuleFile&, const YAML::Node&)) {
  std::vector<T> all;
  const YAML::Node list = yaml::child(root, key);
  if (!is_there(list)) return all;
  if (!list.IsSequence()) return std::unexpected(file.wrong(list, fmt::format("{} should be a list", key)));
  if (list.size() > (key == "rules" ? kMostRules : kMostSinks))
    return std::unexpected(file.wrong(list, fmt::format("too many {}", key)));
  for (const auto& entry : list) {
    GPUWARDEN_TRY(T one, read(file, entry));
    all.push_back(std::move(one));
  }
  return all;
}

/// Sinks without a name are called after their kind, and numbered where there are several.
void name_sinks(std::vector<SinkSpec>& sinks) {
  static constexpr std::array<std::string_view, 3> kKinds{"log", "command", "webhook"};
  for (SinkSpec& sink : sinks) {
    if (!sink.name.empty()) continue;
    const std::string kind(kKinds.at(static_cast<std::size_t>(sink.kind)));
    std::string name = kind;
    for (int i = 2; std::ranges::find(sinks, name, &SinkSpec::name) != sinks.end(); ++i)
      name = fmt::format("{}-{}", kind, i);
    sink.name = name;
  }
}

Result<void> check_names(const RuleFile& file, const YAML::Node& root, const AlertConfig& config) {
  std::set<std::string> ids;
  std::set<std::string> names;
  for (const SinkSpec& sink : config.sinks) {
    if (!names.insert(sink.name).second)
      return std::unexpected(
          file.wrong(yaml::child(root, "sinks"), fmt::format("two sinks are called '{}'", sink.name)));
  }
  for (std::size_t i = 0; i < config.rules.size(); ++i) {
    const AlertRule& rule = config.rules[i];
    const YAML::Node at = yaml::child(root, "rules")[i];
    if (!ids.insert(rule.id).second)
      return std::unexpected(file.wrong(yaml::child(at, "id"), fmt::format("two rules have the id '{}'", rule.id)));
    for (const std::string& sink : rule.sinks) {
      if (names.contains(sink)) continue;
      const std::string meant = closest_match(sink, {names.begin(), names.end()});
      return std::unexpected(file.wrong(yaml::child(at, "sinks"), fmt::format("unknown sink '{}'", printable(sink)),
                                        meant.empty() ? "" : fmt::format("did you mean '{}'?", meant)));
    }
  }
  return {};
}

/// A rule that follows from one that there is not is a slip of the pen; from one that is left out it follows no more.
Result<void> check_parts(const RuleFile& file, const YAML::Node& root, const AlertConfig& config) {
  std::vector<std::string> known{std::string(kAnyError)};
  for (const AlertRule& rule : built_in_rules()) known.push_back(rule.id);
  for (const AlertRule& rule : config.rules) known.push_back(rule.id);
  for (std::size_t i = 0; i < config.rules.size(); ++i) {
    for (const std::string& id : config.rules[i].part_of) {
      if (std::ranges::find(known, id) != known.end()) continue;
      const std::string meant = closest_match(id, known);
      return std::unexpected(file.wrong(
          yaml::child(yaml::child(root, "rules")[i], "part_of"), fmt::format("unknown rule '{}'", printable(id)),
          meant.empty() ? "the id of another rule, or \"*\" for all of level ERROR or CRITICAL"
                        : fmt::format("did you mean '{}'?", meant)));
    }
  }
  return {};
}

/// The built-in rules that are left in, before the file's own.
Result<void> add_built_in(const RuleFile& file, const YAML::Node& root, AlertConfig& config) {
  const YAML::Node at = yaml::child(root, "built_in");
  GPUWARDEN_TRY(const std::vector<std::string> out, file.texts(root, "built_in"));
  if (at.IsDefined() && at.IsScalar() && at.Scalar() == "false") return {};
  const bool all = !is_there(at) || (at.IsScalar() && at.Scalar() == "true");
  std::vector<std::string> known;
  for (const AlertRule& rule : built_in_rules()) known.push_back(rule.id);
  for (const std::string& id : out) {
    if (all || std::ranges::find(known, id) != known.end()) continue;
    const std::string meant = closest_match(id, known);
    return std::unexpected(file.wrong(
        at, fmt::format("no built-in rule '{}'", printable(id)),
        meant.empty() ? "true, false, or a list of ids that are left out" : fmt::format("did you mean '{}'?", meant)));
  }
  std::vector<AlertRule> rules;
  for (const AlertRule& rule : built_in_rules()) {
    const bool left_out = !all && std::ranges::find(out, rule.id) != out.end();
    const bool replaced = std::ranges::find(config.rules, rule.id, &AlertRule::id) != config.rules.end();
    if (!left_out && !replaced) rules.push_back(rule);
  }
  for (AlertRule& rule : config.rules) rules.push_back(std::move(rule));
  config.rules = std::move(rules);
  return {};
}

}  // namespace

std::string_view to_string(AlertLevel level) { return kLevels.at(static_cast<std::size_t>(level)); }

std::optional<AlertLevel> alert_level_from(std::string_view name) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (to_lower(name) == to_lower(kLevels.at(i))) return static_cast<AlertLevel>(i);
  }
  return std::nullopt;
}

Result<AlertConfig> parse_alert_rules(std::string_view text, std::string_view name) {
  GPUWARDEN_TRY(const YAML::Node root, yaml::load(text, name));
  AlertConfig config{.rules = built_in_rules(), .sinks = {}};
  if (!is_there(root)) return config;
  const RuleFile file(name);
  GPUWARDEN_CHECK(yaml::check_keys(root, name, "the file", {"rules", "sinks", "built_in"}));
  GPUWARDEN_TRY(config.rules, read_list(file, root, "rules", read_rule));
  GPUWARDEN_TRY(config.sinks, read_list(file, root, "sinks", read_sink));
  name_sinks(config.sinks);
  GPUWARDEN_CHECK(check_names(file, root, config));
  GPUWARDEN_CHECK(check_parts(file, root, config));
  GPUWARDEN_CHECK(add_built_in(file, root, config));
  return config;
}

}  // namespace gpuwarden::telemetry
