// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/run_rules.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::HasSubstr;

knowledge::Knowledge with_rules(std::string_view rules) {
  auto knowledge = knowledge::Knowledge::built_in().with_overlay(rules, "site.yaml");
  EXPECT_TRUE(knowledge) << knowledge.error().message;
  return knowledge.value_or(knowledge::Knowledge::built_in());
}

/// A run on as many H100 as there are utilizations; memory is nine tenths full.
RunReport run_with(const std::vector<std::optional<double>>& utilizations) {
  RunReport report;
  for (const auto& utilization : utilizations) {
    GpuReport gpu;
    gpu.name = "NVIDIA H100 80GB HBM3";
    gpu.peak_memory = 72_GiB;
    gpu.memory_total = 80_GiB;
    gpu.mean_utilization = utilization;
    report.gpus.push_back(gpu);
  }
  return report;
}

TEST(RunRules, MoreGpusThanWereUsedIsSaidOnce) {
  const auto site = with_rules("rules: [{id: waste, when: {gpus_unused: true}, fix: ask for fewer}]");
  const auto findings = judge_run(run_with({95, 97, 0, 0.2}), site.rules(), {});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "site:waste");
  EXPECT_EQ(findings[0].severity, "warning");
  EXPECT_EQ(findings[0].message, "4 GPUs were asked for, 2 used");
  EXPECT_EQ(findings[0].fix, "ask for fewer");
  EXPECT_TRUE(judge_run(run_with({95, 97}), site.rules(), {}).empty());
  EXPECT_TRUE(judge_run(run_with({95, std::nullopt}), site.rules(), {}).empty()) << "not known is not unused";
}

TEST(RunRules, MemoryAndAStarvedGpuAreToldWithTheirFigures) {
  const auto site = with_rules(R"x(rules:
  - {id: full, severity: info, when: {memory_above: 85}}
  - {id: loader, when: {utilization_below: 40, cpu_above: 90}, message: "{gpu} waits for the CPUs ({cpu} %)"}
)x");
  const auto findings = judge_run(run_with({20}), site.rules(), {.workload = "", .driver = {}, .cpu_percent = 97.0});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].message, HasSubstr("memory is 90 % full"));
  EXPECT_EQ(findings[1].message, "NVIDIA H100 80GB HBM3 waits for the CPUs (97 %)");
  EXPECT_EQ(judge_run(run_with({20}), site.rules(), {}).size(), 1U) << "the CPUs' use is not known";
  RunReport report = run_with({20});
  report.findings = findings;
  EXPECT_EQ(to_json(report)["findings"][1]["id"], "site:loader");
}

TEST(RunRules, ARuleForAWorkloadAndAnArchitectureFindsItsDriver) {
  const auto site = with_rules(
      "rules: [{id: ours, severity: error, architecture: Hopper, workload: our-model, driver: {required: 570.86}}]");
  const RunSurroundings ours{.workload = "python train.py --model our-model",
                             .driver = knowledge::Version{550, 54, 15}};
  const auto findings = judge_run(run_with({90, 90}), site.rules(), ours);
  ASSERT_EQ(findings.size(), 1U) << "the same sentence of two GPUs";
  EXPECT_THAT(findings[0].message, HasSubstr("570.86"));
  EXPECT_TRUE(judge_run(run_with({90}), site.rules(), {.workload = "python other.py", .driver = ours.driver}).empty());
}

TEST(RunRules, BusyIsWhatWasNeitherIdleNorWaiting) {
  const auto busy = busy_percent("cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 ...\n", "cpu  400 0 200 1100 300 0 0 0 90 0\n");
  ASSERT_TRUE(busy);
  EXPECT_DOUBLE_EQ(*busy, 40) << "400 of 1000 ticks";
  EXPECT_EQ(busy_percent("", "cpu 1 2 3 4 5 6\n"), std::nullopt);
  EXPECT_EQ(busy_percent("cpu 1 2 3 4 5 6\n", "cpu 1 2 3 4 5 6\n"), std::nullopt) << "no time passed";
  EXPECT_EQ(busy_percent("cpu a b c d e f\n", "cpu 1 2 3 4 5 6\n"), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::launch
