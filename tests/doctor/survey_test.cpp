// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/survey.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::doctor {
namespace {

using ::testing::HasSubstr;

MachineAnswer answer(const std::string& name, const std::string& driver) {
  facts::Snapshot snapshot = testing::fleet(2);
  snapshot.driver_version = driver;
  return {name, facts::to_json(snapshot).dump(), ""};
}

TEST(Survey, MachinesAreJudgedComparedAndThoseThatToldNothingNamed) {
  const Survey result = survey({answer("a", "550.54.15"),
                                answer("b", "550.54.15"),
                                answer("c", "535.54.03"),
                                {"d", "", "it takes no jobs (drained)"},
                                {"e", "[1]", ""}},
                               knowledge::Knowledge::built_in());
  ASSERT_EQ(result.machines.size(), 3U);
  EXPECT_EQ(result.examinations.size(), 3U);
  ASSERT_EQ(result.not_looked_at.size(), 2U);
  EXPECT_EQ(result.not_looked_at[0].problem, "it takes no jobs (drained)");
  EXPECT_EQ(result.not_looked_at[1].problem, "it sent no snapshot");
  ASSERT_FALSE(result.outliers.empty());
  EXPECT_EQ(result.outliers[0].machine, "c");
  EXPECT_TRUE(result.is_bad());
  const auto json = to_json(result);
  EXPECT_EQ(json["nodes"].size(), 3U);
  EXPECT_EQ(json["not_looked_at"][1]["node"], "e");
}

TEST(Survey, EqualsThatAreWellAreFine) {
  const Survey result = survey({answer("a", "550.54.15"), answer("b", "550.54.15"), answer("c", "550.54.15")},
                               knowledge::Knowledge::built_in());
  EXPECT_TRUE(result.outliers.empty());
  EXPECT_TRUE(result.not_looked_at.empty());
}

}  // namespace
}  // namespace gpuwarden::doctor
