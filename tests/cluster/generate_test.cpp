// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/generate.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/telemetry/promql.hpp"
#include "support/daemon.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

telemetry::AlertRule rule(const std::string& id, const std::string& condition) {
  telemetry::AlertRule rule;
  rule.id = id;
  rule.when = telemetry::Expression::parse(condition).value();
  return rule;
}

/// What promtool says of a file; nothing where it is not installed.
std::optional<Completed> promtool(std::vector<std::string> words, const std::string& text) {
  const auto program = testing::find_program("promtool");
  if (program.empty()) return std::nullopt;
  const testing::TempDir dir;
  testing::put(dir / "file.yml", text);
  words.insert(words.begin(), program.string());
  words.push_back((dir / "file.yml").string());
  return testing::run_patiently({.argv = words}).value_or(Completed{});
}

TEST(PrometheusRules, SayWhatARuleSays) {
  auto hot = rule("gpu_hot", "temperature > slowdown - 5");
  hot.holds_for = std::chrono::milliseconds(9500);
  hot.level = telemetry::AlertLevel::critical;
  hot.message = "GPU {gpu} of {host} is at {value}";
  hot.next_step = "say \"stop\"";
  const std::string text = prometheus_rules(std::span(&hot, 1));
  EXPECT_THAT(text, HasSubstr("- alert: GpuwardenGpuHot\n"));
  EXPECT_THAT(text, HasSubstr("expr: \"gpuwarden_gpu_temperature_celsius > "));
  EXPECT_THAT(text, HasSubstr("for: 10s\n"));
  EXPECT_THAT(text, HasSubstr("severity: critical\n"));
  EXPECT_THAT(text, HasSubstr("summary: \"GPU {{ $labels.gpu }} of {{ $labels.instance }} is at {{ $value }}\""));
  EXPECT_THAT(text, HasSubstr(R"(description: "say \"stop\"")"));
}

TEST(PrometheusRules, WhatPrometheusCannotSayIsAComment) {
  const auto mine = rule("mine", "command ~ python");
  const std::string text = prometheus_rules(std::span(&mine, 1));
  EXPECT_THAT(text, HasSubstr("# mine: command ~ python: left out: command is not exported to Prometheus\n"));
  EXPECT_THAT(text, Not(HasSubstr("GpuwardenMine")));
}

TEST(PrometheusRules, OfEveryBuiltInRuleArePrometheuss) {
  const auto& rules = telemetry::built_in_rules();
  ASSERT_FALSE(rules.empty());
  const auto said = promtool({"check", "rules"}, prometheus_rules(rules));
  if (!said) GTEST_SKIP() << "no promtool";
  EXPECT_EQ(said->exit_code, 0) << said->standard_error << prometheus_rules(rules);
}

TEST(PrometheusRules, OfManyShapesArePrometheuss) {
  std::vector<telemetry::AlertRule> rules;
  for (const char* condition :
       {"temp > slowdown - 5 & memory_used > 50%", "not (temp > 80 | power > 300W)", "xid in (48, 79)", "xid",
        "throttle", "throttle thermal & utilization < 50", "not throttle power", "state == lost",
        "name ~ 'H100 (80GB)'", "increase(pcie_replays) > 0", "health != available", "leased & utilization < 5",
        "100 * memory_used / memory_total > 95", "memory_used_percent > 95"})
    rules.push_back(rule(fmt::format("shape_{}", rules.size()), condition));
  const std::string text = prometheus_rules(rules);
  EXPECT_THAT(text, Not(HasSubstr("left out"))) << text;
  const auto said = promtool({"check", "rules"}, text);
  if (!said) GTEST_SKIP() << "no promtool";
  EXPECT_EQ(said->exit_code, 0) << said->standard_error << text;
  EXPECT_THAT(said->standard_output, HasSubstr(fmt::format("{} rules found", rules.size() + 3)));
}

TEST(ScrapeConfig, IsPrometheuss) {
  const std::string text =
      scrape_config({"gpu-1:10478", "http://[::1]:10478", "https://gpu-2:443"}, "/etc/token", std::chrono::seconds(15));
  EXPECT_THAT(text, HasSubstr("job_name: gpuwarden-tls\n    scheme: https\n"));
  EXPECT_THAT(text, HasSubstr("- \"gpu-2:443\"\n"));
  EXPECT_THAT(text, HasSubstr("- \"[::1]:10478\"\n"));
  EXPECT_THAT(text, HasSubstr("scrape_interval: 15s\n"));
  const auto said = promtool({"check", "config", "--syntax-only"}, text);
  if (!said) GTEST_SKIP() << "no promtool";
  EXPECT_EQ(said->exit_code, 0) << said->standard_error << text;
}

TEST(Dashboard, HasAPanelForEveryMetricAndNoTwoInOnePlace) {
  const auto dashboard = nlohmann::json::parse(grafana_dashboard());
  std::set<int> ids;
  std::set<std::pair<int, int>> places;
  std::string expressions;
  for (const auto& panel : dashboard["panels"]) {
    EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second);
    const auto& grid = panel["gridPos"];
    EXPECT_LE(grid["x"].get<int>() + grid["w"].get<int>(), 24);
    for (int x = grid["x"]; x < grid["x"].get<int>() + grid["w"].get<int>(); ++x) {
      for (int y = grid["y"]; y < grid["y"].get<int>() + grid["h"].get<int>(); ++y)
        EXPECT_TRUE(places.emplace(x, y).second) << panel["title"];
    }
    if (panel["type"] == "row") continue;
    expressions += panel["targets"][0]["expr"].get<std::string>() + "\n";
    EXPECT_EQ(panel["datasource"]["uid"], "${datasource}");
    EXPECT_TRUE(panel["type"] == "timeseries" || panel["type"] == "stat");
  }
  for (const facts::Metric& metric : facts::metrics())
    EXPECT_THAT(expressions, HasSubstr(std::string(metric.prometheus) + "{")) << metric.id;
  EXPECT_EQ(dashboard["templating"]["list"].size(), 3U);
  EXPECT_GT(dashboard["schemaVersion"], 30);
}

TEST(Dashboard, SpeaksPromql) {
  const auto dashboard = nlohmann::json::parse(grafana_dashboard());
  std::string rules = "groups:\n  - name: panels\n    rules:\n";
  int count = 0;
  for (const auto& panel : dashboard["panels"]) {
    if (panel["type"] == "row") continue;
    std::string expression = panel["targets"][0]["expr"];
    for (auto at = expression.find("$__rate_interval"); at != std::string::npos;
         at = expression.find("$__rate_interval"))
      expression.replace(at, 16, "1m");
    rules += fmt::format("      - record: panel:{}\n        expr: '{}'\n", ++count, expression);
  }
  const auto said = promtool({"check", "rules"}, rules);
  if (!said) GTEST_SKIP() << "no promtool";
  EXPECT_EQ(said->exit_code, 0) << said->standard_error;
}

}  // namespace
}  // namespace gpuwarden::cluster
