// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/overview.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "diagnosis/calibration.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// The n-th cause of the data that is of another area than those before it.
std::string id_of_area(std::size_t n) {
  std::vector<std::string_view> areas;
  for (const auto& row : knowledge::diagnosis_causes()) {
    if (std::ranges::find(areas, row.area) != areas.end()) continue;
    if (areas.size() == n) return std::string(row.id);
    areas.push_back(row.area);
  }
  return "";
}

Cause cause(const std::string& id, double confidence, std::vector<std::uint32_t> lines) {
  Cause result;
  result.id = id;
  result.confidence = confidence;
  for (const std::uint32_t line : lines) result.evidence.push_back({.file = "run.log", .line = line, .text = "x"});
  return result;
}

TEST(IndependentFailures, AreOfOtherAreasAndOtherLines) {
  const std::string first = id_of_area(0);
  const std::string second = id_of_area(1);
  EXPECT_EQ(independent_failures({}), 0U);
  EXPECT_EQ(independent_failures({.causes = {cause(first, 0.9, {1}), cause(second, 0.8, {2})}}), 2U);
  EXPECT_EQ(independent_failures({.causes = {cause(first, 0.9, {1, 2}), cause(second, 0.8, {2})}}), 1U)
      << "two readings of one line";
  EXPECT_EQ(independent_failures({.causes = {cause(first, 0.9, {1}), cause(first, 0.8, {2})}}), 1U) << "one area";
  EXPECT_EQ(independent_failures({.causes = {cause(first, 0.9, {1}), cause(second, 0.39, {2})}}), 1U)
      << "hardly likely";
  EXPECT_EQ(independent_failures({.causes = {cause("no_such_cause", 0.9, {1})}}), 0U);
}

TEST(WeightAmong, IsTheCurvesOfTheFirstAndInProportionOfTheOthers) {
  const Diagnosis diagnosis{.causes = {cause("a", calibrated(0.6), {1}), cause("b", calibrated(0.6) / 2, {2})}};
  EXPECT_DOUBLE_EQ(weight_among(diagnosis, diagnosis.causes[0]), 0.6);
  EXPECT_DOUBLE_EQ(weight_among(diagnosis, diagnosis.causes[1]), 0.3);
  EXPECT_DOUBLE_EQ(weight_among({.causes = {cause("a", 1, {1})}}, cause("a", 1, {1})), 1) << "nobody's curve is surer";
  EXPECT_EQ(weight_among({.causes = {cause("a", 0, {1})}}, cause("a", 0, {1})), 0);
}

TEST(IndependentFailures, AFirstCauseThatIsHardlyLikelyIsNone) {
  EXPECT_EQ(independent_failures({.causes = {cause(id_of_area(0), calibrated(0.39), {1})}}), 0U);
  EXPECT_EQ(independent_failures({.causes = {cause(id_of_area(0), calibrated(0.4), {1})}}), 1U);
}

TEST(DistinctEvidence, HasALineThatSeveralRulesFitOnce) {
  const Cause twice = cause("x", 1, {3, 4, 3});
  const auto lines = distinct_evidence(twice);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], &twice.evidence[0]);
  EXPECT_EQ(lines[1]->line, 4U);
}

}  // namespace
}  // namespace gpuwarden::diagnosis
