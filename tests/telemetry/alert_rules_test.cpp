// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/alert_rules.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/matchers.hpp"
#include "support/source_folder.hpp"
#include "telemetry/alert_rule_text.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::StartsWith;

const AlertRule* find(const AlertConfig& config, std::string_view id) {
  const auto found = std::ranges::find(config.rules, id, &AlertRule::id);
  return found == config.rules.end() ? nullptr : &*found;
}

TEST(BuiltInRules, AreNamedOnceAndSayWhereTheyAreFrom) {
  std::set<std::string> ids;
  for (const AlertRule& rule : built_in_rules()) {
    EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
    EXPECT_TRUE(rule.built_in);
    EXPECT_FALSE(rule.source.empty()) << rule.id;
    EXPECT_FALSE(rule.message.empty()) << rule.id;
    EXPECT_EQ(unknown_gap(rule.message), "") << rule.id;
    EXPECT_EQ(unknown_gap(rule.next_step), "") << rule.id;
    if (rule.when.about_events()) {
      EXPECT_EQ(rule.clear_for, 10min) << rule.id;
    }
  }
  for (const AlertRule& rule : built_in_rules()) {
    for (const std::string& root : rule.part_of) EXPECT_TRUE(root == kAnyError || ids.contains(root)) << root;
  }
  EXPECT_GE(ids.size(), 20U);
}

/// The Xids that a rule speaks of, out of "xid in (48, 95)" and "xid == 79".
std::set<int> xids_of(const AlertRule& rule) {
  std::set<int> codes;
  if (!rule.when.text().starts_with("xid")) return codes;
  std::string digits = rule.when.text();
  for (char& c : digits) c = c >= '0' && c <= '9' ? c : ' ';
  for (const auto word : split_words(digits)) codes.insert(static_cast<int>(*parse_integer(word)));
  return codes;
}

TEST(BuiltInRules, TellOfEveryXidThatTheCatalogCallsAnErrorAsBadly) {
  const auto table = read_file(testing::source_folder() / "knowledge/xid.csv");
  ASSERT_TRUE(table);
  std::map<int, AlertLevel> ours;
  for (const AlertRule& rule : built_in_rules()) {
    for (const int code : xids_of(rule)) EXPECT_TRUE(ours.emplace(code, rule.level).second) << code << " is told twice";
  }
  int found = 0;
  for (const auto line : split(*table, '\n')) {
    const auto code = parse_integer(line.substr(0, line.find(',')));
    if (!code) continue;
    for (const auto& [word, level] : {std::pair(",critical,", AlertLevel::critical), {",error,", AlertLevel::error}}) {
      if (!line.contains(word)) continue;
      ++found;
      ASSERT_TRUE(ours.contains(static_cast<int>(*code))) << line;
      EXPECT_EQ(ours.at(static_cast<int>(*code)), level) << line;
    }
  }
  EXPECT_GE(found, 20);
}

TEST(BuiltInRules, AreAllInTheDocumentation) {
  const auto text = read_file(testing::source_folder() / "docs/alerts.md");
  ASSERT_TRUE(text);
  for (const AlertRule& rule : built_in_rules()) {
    const std::string when =
        rule.holds_for > 0s ? fmt::format("{} for {}s", rule.when.text(), rule.holds_for / 1s) : rule.when.text();
    EXPECT_THAT(*text, HasSubstr(fmt::format("| `{}` | {} | `{}` | {} |\n", rule.id, to_string(rule.level), when,
                                             rule.source)));
  }
}

TEST(AlertRules, AreReadWithAllTheirKeys) {
  const auto config = parse_alert_rules(R"(
rules:
  - id: toasty
    when: temperature > slowdown - 5 for 10s
    until: temperature < slowdown - 8 for 1m
    level: Critical
    repeat: 1h
    message: "GPU {gpu} on {host} is at {value}"
    next_step: open a window
    sinks: [chat, log]
  - id: stuck
    when: utilization < 5 while memory_used > 50%
    for: 10m
    clear_for: 30s
  - id: died
    when: xid == 79
sinks:
  - log
  - name: chat
    webhook: https://example.org/hook?token=abc
    body: slack
    at_least: error
  - command: [mail, -s, GPU, root]
  - command: mail -s GPU root
  - log: /var/log/gpu.log
built_in: false
)",
                                        "alerts.yaml");
  ASSERT_THAT(config, IsOk());
  ASSERT_EQ(config->rules.size(), 3U);
  const AlertRule& toasty = config->rules[0];
  EXPECT_EQ(toasty.when.text(), "temperature > slowdown - 5");
  EXPECT_EQ(toasty.holds_for, 10s);
  EXPECT_EQ(toasty.until->text(), "temperature < slowdown - 8");
  EXPECT_EQ(toasty.clear_for, 1min);
  EXPECT_EQ(toasty.level, AlertLevel::critical);
  EXPECT_EQ(toasty.repeat, 1h);
  EXPECT_EQ(toasty.message, "GPU {gpu} on {host} is at {value}");
  EXPECT_EQ(toasty.next_step, "open a window");
  EXPECT_THAT(toasty.sinks, ElementsAre("chat", "log"));
  EXPECT_FALSE(toasty.built_in);
  EXPECT_EQ(config->rules[1].holds_for, 10min);
  EXPECT_EQ(config->rules[1].clear_for, 30s);
  EXPECT_EQ(config->rules[1].level, AlertLevel::warning);
  EXPECT_EQ(config->rules[1].message, "GPU {gpu}: utilization < 5 while memory_used > 50%");
  EXPECT_EQ(config->rules[2].clear_for, 10min) << "an event's alert lasts a while";
  ASSERT_EQ(config->sinks.size(), 5U);
  EXPECT_EQ(config->sinks[0].name, "log");
  EXPECT_EQ(config->sinks[1].kind, SinkSpec::Kind::webhook);
  EXPECT_EQ(config->sinks[1].target, "https://example.org/hook?token=abc");
  EXPECT_EQ(config->sinks[1].body, SinkSpec::Body::slack);
  EXPECT_EQ(config->sinks[1].at_least, AlertLevel::error);
  EXPECT_THAT(config->sinks[2].command, ElementsAre("mail", "-s", "GPU", "root"));
  EXPECT_EQ(config->sinks[2].name, "command");
  EXPECT_THAT(config->sinks[3].command, ElementsAre("/bin/sh", "-c", "mail -s GPU root"));
  EXPECT_EQ(config->sinks[3].name, "command-2");
  EXPECT_EQ(config->sinks[4].target, "/var/log/gpu.log");
}

TEST(AlertRules, LieOverTheBuiltInOnes) {
  const std::size_t all = built_in_rules().size();
  EXPECT_EQ(parse_alert_rules("", "empty")->rules.size(), all);
  EXPECT_EQ(parse_alert_rules("built_in: true", "x")->rules.size(), all);
  EXPECT_EQ(parse_alert_rules("built_in: [hot, memory_full]", "x")->rules.size(), all - 2);
  EXPECT_EQ(parse_alert_rules("built_in: false", "x")->rules.size(), 0U);
  const auto config = parse_alert_rules("rules: [{id: hot, when: temp > 60}]", "x");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->rules.size(), all);
  EXPECT_EQ(find(*config, "hot")->when.text(), "temp > 60");
}

struct WrongRule {
  const char* text;
  const char* message;
  const char* hint;
};

TEST(AlertRules, SayWhereAndWhatIsWrong) {
  for (const auto& [text, message, hint] : std::vector<WrongRule>{
           {"rules:\n  - id: a\n    when: temprature > 80\n", "r.yaml:3:11: unknown name 'temprature'",
            "did you mean 'temperature'?"},
           {"rules:\n  - id: a\n    when: 'temp > 80 and foo'\n", "r.yaml:3:26: unknown name 'foo'", ""},
           {"rules:\n  - id: a\n    when: temp > 80 for ever\n", "r.yaml:3:21: ", "for 30s"},
           {"rules:\n  - id: a\n    when: xid == 79 for 30s\n", "r.yaml:3:21: an event is over", "clear_for"},
           {"rules:\n  - id: a\n    when: xid\n    for: 3s\n", "r.yaml:4:10: an event is over", "clear_for"},
           {"rules:\n  - id: a\n    when: temp > 8 for 3s\n    for: 3s\n", "r.yaml:4:10: the time is given twice", ""},
           {"rules:\n  - id: a\n    wen: temp > 80\n", "r.yaml:3:5: a rule has no key 'wen'", "did you mean 'when'?"},
           {"rules:\n  - id: a\n", "r.yaml:2:5: rule 'a' has no condition", "when: "},
           {"rules:\n  - when: temp > 80\n", "r.yaml:2:5: a rule has no id", "id: hot"},
           {"rules:\n  - id: a b\n    when: temp > 80\n", "r.yaml:2:9: 'a b' is not a valid id", ""},
           {"rules:\n  - {id: a, when: temp > 8, level: bad}\n", "unknown level 'bad'", "CRITICAL"},
           {"rules:\n  - {id: a, when: temp > 8, repeat: soon}\n", "r.yaml:2:37: ", "30s"},
           {"rules:\n  - {id: a, when: temp > 8, repeat: 5ms}\n", "repeat must be at least 1s", ""},
           {"rules:\n  - {id: a, when: temp > 8, sinks: [chatt]}\nsinks: [{name: chat, log: x}]\n",
            "unknown sink 'chatt'", "did you mean 'chat'?"},
           {"rules:\n  - {id: a, when: temp > 8}\n  - {id: a, when: temp > 9}\n", "r.yaml:3:10: two rules have the id",
            ""},
           {"rules:\n  - {id: a, when: temp > 8, message: 'at {temprature}'}\n", "unknown name '{temprature}'",
            "did you mean '{temperature}'?"},
           {"rules: 5\n", "r.yaml:1:8: rules should be a list", ""},
           {"rules: [[]]\n", "a rule should be a map", ""},
           {"rules: [{id: [a], when: temp > 8}]\n", "id should be a text", ""},
           {"ruless: []\n", "r.yaml:1:1: the file has no key 'ruless'", "did you mean 'rules'?"},
           {"- a\n", "the file should be a map", ""},
           {"sinks: [{webhook: example.org}]\n", "webhook should be an http or https URL", "https://"},
           {"sinks: [{webhook: 'file:///etc/passwd'}]\n", "webhook should be an http or https URL", ""},
           {"sinks: [{webhook: 'https://x.org', body: teams}]\n", "unknown body 'teams'", "slack"},
           {"sinks: [{log: x, body: slack}]\n", "only a webhook has a body", ""},
           {"sinks: [{log: x, command: [y]}]\n", "a sink is one of log, command and webhook", ""},
           {"sinks: [{command: []}]\n", "command is empty", ""},
           {"sinks: [{name: a, log: x}, {name: a, log: y}]\n", "two sinks are called 'a'", ""},
           {"built_in: [hott]\n", "no built-in rule 'hott'", "did you mean 'hot'?"},
           {"a: [\n", "r.yaml:", ""}}) {
    const auto config = parse_alert_rules(text, "r.yaml");
    ASSERT_THAT(config, FailsWith(ErrorCode::invalid_argument, AllOf(StartsWith("r.yaml:"), HasSubstr(message))))
        << text;
    EXPECT_THAT(config.error().hint, HasSubstr(hint)) << text;
  }
}

TEST(AlertRules, KnowTheirLevelsInAnyLetters) {
  EXPECT_EQ(alert_level_from("warning"), AlertLevel::warning);
  EXPECT_EQ(alert_level_from("Info"), AlertLevel::info);
  EXPECT_EQ(alert_level_from("warn"), std::nullopt);
  EXPECT_EQ(to_string(AlertLevel::critical), "CRITICAL");
}

TEST(Gaps, AreFilledWhereTheyNameSomething) {
  const auto fill = [](std::string_view name) -> std::optional<std::string> {
    if (name == "gpu") return "3";
    return std::nullopt;
  };
  EXPECT_EQ(fill_gaps("GPU {gpu}{gpu}: {x} {} {", fill), "GPU 33: {x} {} {");
  EXPECT_EQ(fill_gaps("{{gpu}}", fill), "{3}");
  EXPECT_EQ(unknown_gap("{gpu} {value} {JSON} {\"a\": 1}"), "");
  EXPECT_EQ(unknown_gap("{gpu} {nonsense}"), "nonsense");
}

/// The examples that users copy.
TEST(AlertRules, OfTheDocumentationAreFine) {
  const auto text = read_file(testing::source_folder() / "docs/alerts.md");
  ASSERT_TRUE(text);
  std::size_t examples = 0;
  for (std::size_t at = text->find("```yaml\n"); at != std::string::npos; at = text->find("```yaml\n", at + 1)) {
    const std::size_t end = text->find("```", at + 8);
    EXPECT_THAT(parse_alert_rules(text->substr(at + 8, end - at - 8), "docs/alerts.md"), IsOk());
    ++examples;
  }
  EXPECT_GE(examples, 2U);
}

}  // namespace
}  // namespace gpuwarden::telemetry
