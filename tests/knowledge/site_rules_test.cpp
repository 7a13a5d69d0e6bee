// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/site_rules.hpp"

#include <array>

namespace gpuwarden::knowledge {
namespace {

SiteRule driver_rule() {
  return {.id = "our-model",
          .severity = "error",
          .gpu = "H100",
          .driver_minimum = {535},
          .driver_recommended = {560},
          .driver_optimal = {570, 47, 3},
          .fix = "install {wanted}"};
}

Situation on_h100(Version driver) {
  return {.gpu = "NVIDIA H100 80GB HBM3", .architecture = "Hopper", .capability = 90, .driver = driver};
}

std::vector<RuleHit> judge_one(const SiteRule& rule, const Situation& situation) {
  return judge(std::span(&rule, 1), situation);
}

TEST(SiteRules, TheGravestLevelOfTheDriverCounts) {
  const SiteRule rule = driver_rule();
  const auto below = judge_one(rule, on_h100({525, 60, 13}));
  ASSERT_EQ(below.size(), 1U);
  EXPECT_EQ(below[0].severity, "error");
  EXPECT_EQ(below[0].message, "driver 525.60.13 on NVIDIA H100 80GB HBM3: at least 535");
  EXPECT_EQ(below[0].fix, "install 535");
  EXPECT_EQ(judge_one(rule, on_h100({550}))[0].severity, "warning");
  EXPECT_EQ(judge_one(rule, on_h100({565}))[0].severity, "info");
  EXPECT_TRUE(judge_one(rule, on_h100({570, 47, 3})).empty()) << "optimal: nothing to say";
}

TEST(SiteRules, ConcernOnlyTheGpusAndTheWorkThatTheyName) {
  SiteRule rule = driver_rule();
  Situation situation = on_h100({500});
  situation.gpu = "NVIDIA L4";
  EXPECT_TRUE(judge_one(rule, situation).empty());
  rule.gpu = "";
  rule.architecture = "hopper";
  EXPECT_EQ(judge_one(rule, situation).size(), 1U);
  rule.architecture = "sm_89";
  EXPECT_TRUE(judge_one(rule, situation).empty());
  rule.architecture = "9.0";
  rule.workload = "llama";
  EXPECT_TRUE(judge_one(rule, situation).empty());
  situation.workload = "train Llama-3-8b";
  EXPECT_EQ(judge_one(rule, situation).size(), 1U);
}

TEST(SiteRules, WordsOfANameAreWholeWords) {
  EXPECT_TRUE(has_words("NVIDIA A100-SXM4-80GB", "a100"));
  EXPECT_TRUE(has_words("NVIDIA GeForce RTX 4090 D", "RTX 4090"));
  EXPECT_FALSE(has_words("NVIDIA L40", "L4"));
  EXPECT_FALSE(has_words("NVIDIA L40", ""));
}

TEST(SiteRules, GpusThatWereAskedForAndNotUsedAreWaste) {
  const SiteRule rule{.id = "idle", .severity = "warning", .gpus_unused = true};
  Situation situation{.gpus_requested = 4, .gpus_used = 1};
  const auto hits = judge_one(rule, situation);
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].message, "4 GPUs were asked for, 1 used");
  situation.gpus_used = 4;
  EXPECT_TRUE(judge_one(rule, situation).empty());
  situation.gpus_used.reset();
  EXPECT_TRUE(judge_one(rule, situation).empty()) << "what is not known is not held against anybody";
}

TEST(SiteRules, AllConditionsOfAStarvedLoaderMustHold) {
  const SiteRule rule{.id = "starved",
                      .severity = "warning",
                      .utilization_below = 30,
                      .cpu_above = 80,
                      .message = "{gpu}: {utilization} % busy, CPUs {cpu} %: the data loader starves it",
                      .fix = "more workers"};
  Situation situation{.gpu = "A100", .utilization_percent = 12.4, .cpu_percent = 95};
  const auto hits = judge_one(rule, situation);
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].message, "A100: 12 % busy, CPUs 95 %: the data loader starves it");
  EXPECT_EQ(hits[0].fix, "more workers");
  situation.cpu_percent = 20;
  EXPECT_TRUE(judge_one(rule, situation).empty());
  situation.cpu_percent.reset();
  EXPECT_TRUE(judge_one(rule, situation).empty());
}

TEST(SiteRules, FullMemoryIsAboveTheLimitNotAtIt) {
  const SiteRule rule{.id = "full", .severity = "info", .memory_above = 90};
  EXPECT_TRUE(judge_one(rule, {.gpu = "L4", .memory_percent = 90}).empty());
  EXPECT_EQ(judge_one(rule, {.gpu = "L4", .memory_percent = 95})[0].message, "L4: memory is 95 % full");
}

}  // namespace
}  // namespace gpuwarden::knowledge
