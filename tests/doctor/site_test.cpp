// SPDX-License-Identifier: Apache-2.0
// A site's own rules among the doctor's findings.
#include <nlohmann/json.hpp>

#include "doctor/machines.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

knowledge::Knowledge with_rules(std::string_view rules) {
  auto knowledge = knowledge::Knowledge::built_in().with_overlay(rules, "site.yaml");
  EXPECT_TRUE(knowledge) << knowledge.error().message;
  return knowledge.value_or(knowledge::Knowledge::built_in());
}

constexpr std::string_view kDriverRule =
    "rules: [{id: our-driver, severity: error, gpu: H100, workload: llama, driver: {required: 999.10},"
    " message: '{gpu}: {wanted} for {workload}', fix: apt install ours}]";

TEST(SiteRules, ADriverRuleIsAFindingOfItsWorkload) {
  const auto site = with_rules(kDriverRule);
  const auto machine = testing::healthy_machine();
  const Purpose llama{.text = "train llama-3-8b"};
  const Examination examination = examine(machine, site, llama);
  ASSERT_EQ(examination.findings.size(), 1U);
  const Finding& finding = examination.findings[0];
  EXPECT_EQ(finding.id, "site:our-driver");
  EXPECT_EQ(finding.area, Area::driver);
  EXPECT_EQ(finding.severity, Severity::error);
  EXPECT_THAT(finding.title, HasSubstr("H100"));
  EXPECT_THAT(finding.title, Not(HasSubstr("GPUs "))) << "all four are meant";
  EXPECT_EQ(finding.fix, std::vector<std::string>{"apt install ours"});
  EXPECT_EQ(finding.source, "site.yaml");
  EXPECT_EQ(examination.overall, Status::incompatible);
  EXPECT_EQ(examination.areas.at(Area::driver), Status::incompatible);
  EXPECT_TRUE(examine(machine, site).findings.empty()) << "another workload is not concerned";
}

TEST(SiteRules, UseIsToldOfTheGpusItIsTrueOf) {
  const auto site = with_rules("rules: [{id: full, when: {memory_above: 80}}]");
  auto machine = testing::healthy_machine();
  for (auto& record : machine.gpus) {
    record.sample.memory_total = 80_GiB;
    record.sample.memory_used = 8_GiB;
  }
  EXPECT_TRUE(examine(machine, site, {}, {.only = {"site"}}).findings.empty());
  machine.gpus[2].sample.memory_used = 76_GiB;
  const auto findings = examine(machine, site, {}, {.only = {"site"}}).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].title, HasSubstr("memory is 95 % full (GPU 2)"));
  EXPECT_EQ(findings[0].area, Area::device);
}

TEST(SiteRules, AGpuThatWaitsForTheCpusIsADataLoaderTooSlow) {
  const auto site = with_rules("rules: [{id: loader, when: {utilization_below: 30, cpu_above: 90}}]");
  auto machine = testing::healthy_machine();
  for (auto& record : machine.gpus) record.sample.utilization_gpu = Percent(12);
  testing::host(machine).load_average = 127.0;
  const auto findings = examine(machine, site, {}, {.only = {"site:loader"}}).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].title, HasSubstr("works 12 % of the time"));
  testing::host(machine).load_average = 12.0;
  EXPECT_TRUE(examine(machine, site, {}, {.only = {"site:loader"}}).findings.empty());
  testing::host(machine).load_average.reset();
  EXPECT_TRUE(examine(machine, site, {}, {.only = {"site:loader"}}).findings.empty()) << "not known";
}

TEST(SiteRules, GpusThatSlurmGrantedAndNobodyUses) {
  const auto site = with_rules("rules: [{id: waste, when: {gpus_unused: true}}]");
  auto machine = testing::healthy_machine();
  for (auto& record : machine.gpus) {
    record.processes.emplace();
    record.sample.utilization_gpu = Percent(0);
  }
  const Choice only{.only = {"site"}};
  testing::software(machine).slurm.reset();
  EXPECT_TRUE(examine(machine, site, {}, only).findings.empty()) << "nobody says how many were asked for";
  testing::software(machine).slurm.emplace().gpus_requested = 4;
  machine.gpus[0].sample.utilization_gpu = Percent(90);
  const auto findings = examine(machine, site, {}, only).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].title, "4 GPUs were asked for, 1 used");
}

TEST(SiteRules, AreChosenAndLeftOutLikeChecks) {
  const auto site = with_rules(kDriverRule);
  for (const char* name : {"site", "site:our-driver", "driver", "gpu-lost"})
    EXPECT_TRUE(validate({.only = {name}}, site)) << name;
  const auto wrong = validate({.only = {"site:our-drivr"}}, site);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().hint, HasSubstr("site:our-driver"));
  EXPECT_FALSE(validate({.only = {"site:our-driver"}}, knowledge::Knowledge::built_in())) << "no such rule there";
  const auto machine = testing::healthy_machine();
  const Purpose llama{.text = "llama"};
  EXPECT_TRUE(examine(machine, site, llama, {.skip = {"site"}}).findings.empty());
  EXPECT_TRUE(examine(machine, site, llama, {.skip = {"driver"}}).findings.empty());
  EXPECT_EQ(examine(machine, site, llama, {.only = {"site"}}).ran.size(), 1U);
}

TEST(SiteRules, AreCasesOfTheJunitReport) {
  const auto site = with_rules(kDriverRule);
  const auto machine = testing::healthy_machine();
  const std::string failed = to_junit(examine(machine, site, {.text = "llama"}), Severity::error);
  EXPECT_THAT(failed, HasSubstr("name=\"site:our-driver\"><failure type=\"error\""));
  const std::string passed = to_junit(examine(machine, site), Severity::error);
  EXPECT_THAT(passed, HasSubstr("name=\"site:our-driver\"></testcase>"));
}

}  // namespace
}  // namespace gpuwarden::doctor
