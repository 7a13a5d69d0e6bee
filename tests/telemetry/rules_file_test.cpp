// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/rules_file.hpp"

#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::telemetry {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr std::string_view kOneRule = "rules:\n  - id: warm\n    when: temperature > 60\nbuilt_in: false\n";

TEST(AlertRulesFile, IsFoundWhereTheUserKeepsHis) {
  const TempDir dir;
  EXPECT_NE(find_alert_rules({{"HOME", dir.path().string()}}), dir / ".config/gpuwarden/alerts.yaml")
      << "there is none yet";
  testing::put(dir / ".config/gpuwarden/alerts.yaml", kOneRule);
  EXPECT_EQ(find_alert_rules({{"HOME", dir.path().string()}}), dir / ".config/gpuwarden/alerts.yaml");
  testing::put(dir / "xdg/gpuwarden/alerts.yaml", kOneRule);
  EXPECT_EQ(find_alert_rules({{"HOME", dir.path().string()}, {"XDG_CONFIG_HOME", (dir / "xdg").string()}}),
            dir / "xdg/gpuwarden/alerts.yaml");
}

TEST(AlertRulesFile, IsReadAndWithoutOneTheBuiltInRulesHold) {
  const TempDir dir;
  testing::put(dir / "alerts.yaml", kOneRule);
  const auto own = read_alert_rules(dir / "alerts.yaml");
  ASSERT_THAT(own, testing::IsOk());
  ASSERT_EQ(own->rules.size(), 1U);
  EXPECT_EQ(own->rules[0].id, "warm");
  const auto built_in = read_alert_rules({});
  ASSERT_THAT(built_in, testing::IsOk());
  EXPECT_EQ(built_in->rules.size(), built_in_rules().size());
  EXPECT_FALSE(read_alert_rules(dir / "none.yaml"));
}

TEST(AlertRulesFile, ProgramsOfSinksAreLookedForInThePathOfTheVariables) {
  const TempDir dir;
  AlertConfig alerts;
  alerts.sinks.push_back({.name = "page", .kind = SinkSpec::Kind::command, .command = {"page-somebody"}});
  const Environment environment{{"PATH", dir.path().string()}};
  EXPECT_THAT(check_sinks(alerts, environment), FailsWith(ErrorCode::not_found, HasSubstr("page-somebody")));
  testing::put(dir / "page-somebody", "#!/bin/sh\n");
  std::filesystem::permissions(dir / "page-somebody", std::filesystem::perms::owner_all);
  EXPECT_THAT(check_sinks(alerts, environment), testing::IsOk());
}

}  // namespace
}  // namespace gpuwarden::telemetry
