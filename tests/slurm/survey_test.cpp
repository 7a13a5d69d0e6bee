// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/survey.hpp"

#include "slurm/fake_programs.hpp"

namespace gpuwarden::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Site busy_site() {
  Site site;
  const auto add = [&](const std::string& name, const std::string& gres, const std::string& state, int cpus_used,
                       const std::string& used) {
    site.nodes.push_back({.name = name,
                          .state = state,
                          .gpus = gpus_in_gres(gres),
                          .used = gpus_in_gres(used),
                          .cpus = 8,
                          .cpus_used = cpus_used,
                          .partitions = {"gpu"}});
  };
  add("gn1", "gpu:4", "IDLE", 0, "gpu:0");
  add("gn2", "gpu:4", "MIXED", 4, "gpu:2");
  add("gn3", "gpu:4", "ALLOCATED", 8, "gpu:4");
  add("gn4", "gpu:4", "DOWN*", 0, "");
  return site;
}

TEST(SlurmSurvey, AsksNodesThatHaveACpuLeft) {
  const SurveyPlan plan = plan_survey(busy_site(), "gpu", {"gpuwarden", "snapshot"});
  ASSERT_EQ(plan.steps.size(), 1U);
  EXPECT_THAT(plan.steps[0].nodes, ElementsAre("gn1", "gn2"));
  const std::string words = join(plan.steps[0].argv, " ");
  EXPECT_THAT(words, HasSubstr("--nodes=2 --nodelist=gn1,gn2 "));
  EXPECT_THAT(words, ::testing::EndsWith(" gpuwarden snapshot"));
  EXPECT_EQ(words.find("gres"), std::string::npos);
  ASSERT_EQ(plan.left_out.size(), 2U);
  EXPECT_EQ(plan.left_out[0].problem, "jobs use all of its CPUs");
  EXPECT_THAT(plan.left_out[1].problem, HasSubstr("it takes no jobs (down*"));
}

TEST(SlurmSurvey, WhereDevicesAreConstrainedOnlyWholeNodesAreAsked) {
  Site site = busy_site();
  site.constrains_devices = true;
  const SurveyPlan plan = plan_survey(site, "", {"x"});
  ASSERT_EQ(plan.steps.size(), 1U);
  EXPECT_THAT(plan.steps[0].nodes, ElementsAre("gn1"));
  EXPECT_THAT(plan.steps[0].argv, ::testing::Contains("--gres=gpu:4"));
}

TEST(SlurmSurvey, LinesAreSortedByTask) {
  const auto tasks = parse_labelled(" 1: gn2\n 0: gn1\n10: gn3\n 1: {\"a\":\n 1:   1: 2}\nsrun: error: x\n 0:\n");
  ASSERT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks.at(0), "gn1\n\n");
  EXPECT_EQ(tasks.at(1), "gn2\n{\"a\":\n  1: 2}\n");
  EXPECT_EQ(tasks.at(10), "gn3\n");
}

TEST(SlurmSurvey, ASilentNodeIsNeverTakenForFine) {
  const SurveyPlan plan = plan_survey(busy_site(), "gpu", {"gpuwarden", "snapshot"});
  FakePrograms programs;
  programs.on(join(plan.steps[0].argv, " "), "0: gn1\n0: {}\n", 1,
              "srun: error: gn2: task 1: Exited with exit code 127\n");
  const auto answers = survey(programs, plan);
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_EQ(answers[0], (NodeAnswer{"gn1", "{}\n", ""}));
  EXPECT_EQ(answers[1].node, "gn2");
  EXPECT_THAT(answers[1].problem, HasSubstr("Exited with exit code 127"));
}

}  // namespace
}  // namespace gpuwarden::slurm
