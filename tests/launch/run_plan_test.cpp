// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "gpuwarden/launch/run.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::put;
using testing::TempDir;

RunRequest training() { return {.argv = {"python", "train.py"}, .environment = {{"HOME", "/home/a"}}}; }

TEST(RunPlan, IsOneProcessWhereNothingElseIsSaid) {
  const auto plan = plan_run(training());
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->ranks);
  EXPECT_FALSE(plan->rank_per_gpu);
  EXPECT_EQ(plan->job.nodes, 1U);
  EXPECT_EQ(plan->job.master_address, "127.0.0.1");
  EXPECT_FALSE(plan->job.master_port);
  EXPECT_EQ(plan->job.argv, training().argv);
  EXPECT_EQ(plan->job.environment.at("HOME"), "/home/a");
  EXPECT_FALSE(plan->job.run_id.empty());
  EXPECT_EQ(plan->job.grace, JobSpec{}.grace);
}

TEST(RunPlan, TakesFromTheConfigurationWhatTheRequestLeavesOpen) {
  RunRequest request = training();
  auto& distributed = request.config.distributed;
  distributed.enabled = true;
  distributed.nnodes = 4;
  distributed.node_rank = 3;
  distributed.master_addr = "node0";
  distributed.master_port = 29500;
  request.config.model.model_name_or_path = "gpt2";
  const auto plan = plan_run(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->rank_per_gpu);
  EXPECT_EQ(plan->job.nodes, 4U);
  EXPECT_EQ(plan->job.node_rank, 3U);
  EXPECT_EQ(plan->job.master_address, "node0");
  EXPECT_EQ(plan->job.master_port, 29500);
  EXPECT_EQ(plan->model, "gpt2");
  request.ranks = 2;
  request.nodes = 1;
  request.node_rank = 0;
  const auto said = plan_run(request);
  ASSERT_THAT(said, IsOk());
  EXPECT_FALSE(said->rank_per_gpu) << "a number of ranks was given";
  EXPECT_EQ(said->ranks, 2U);
  EXPECT_EQ(said->job.nodes, 1U);
  distributed.strategy = "single";
  request.ranks.reset();
  EXPECT_FALSE(plan_run(request)->rank_per_gpu);
  request.rank_per_gpu = true;
  EXPECT_TRUE(plan_run(request)->rank_per_gpu);
}

TEST(RunPlan, RefusesWhatCannotRun) {
  EXPECT_THAT(plan_run({}), FailsWith(ErrorCode::invalid_argument, HasSubstr("no command")));
  RunRequest request = training();
  request.ranks = 0;
  EXPECT_THAT(plan_run(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("at least one process")));
  request = training();
  request.nodes = 2;
  EXPECT_THAT(plan_run(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("master port")));
  request.node_rank = 2;
  EXPECT_THAT(plan_run(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("node rank 2 does not fit 2 nodes")));
  request = training();
  request.log_directory = "/proc/logs";
  EXPECT_THAT(plan_run(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("/proc/logs")));
}

TEST(RunPlan, MakesTheLogDirectoryBeforeAnythingRuns) {
  const TempDir dir;
  RunRequest request = training();
  request.log_directory = dir / "a/b";
  ASSERT_THAT(plan_run(request), IsOk());
  EXPECT_TRUE(std::filesystem::is_directory(dir / "a/b"));
}

TEST(RunPlan, TellsTheChoiceOfGpusWhatTheRanksNeed) {
  RunRequest request = training();
  request.ranks = 2;
  request.nodes = 2;
  request.master_port = 29500;
  const auto plan = plan_run(request);
  ASSERT_THAT(plan, IsOk());
  placement::Request two{.count = 2};
  complete(*plan, two);
  EXPECT_TRUE(two.one_process_per_device);
  EXPECT_EQ(two.nodes, 2U);
  placement::Request four{.count = 4};
  complete(*plan, four);
  EXPECT_FALSE(four.one_process_per_device) << "two ranks share four";
}

TEST(CheckProgram, LooksWhereAShellWould) {
  const TempDir dir;
  put(dir / "bin/there", "#!/bin/sh\n");
  put(dir / "bin/plain", "text\n");
  std::filesystem::permissions(dir / "bin/there", std::filesystem::perms::owner_all);
  const Environment environment{{"PATH", "/nowhere:" + (dir / "bin").string()}};
  EXPECT_THAT(check_program("there", environment), IsOk());
  EXPECT_THAT(check_program((dir / "bin/there").string(), {}), IsOk());
  EXPECT_THAT(check_program("sh", {}), IsOk()) << "without a PATH, the system's folders";
  EXPECT_THAT(check_program("missing", environment), FailsWith(ErrorCode::not_found, HasSubstr("'missing' was not")));
  EXPECT_THAT(check_program("plain", environment),
              FailsWith(ErrorCode::permission_denied, HasSubstr("'plain' is not executable")));
  EXPECT_THAT(check_program((dir / "bin/plain").string(), {}),
              FailsWith(ErrorCode::permission_denied, HasSubstr("is not executable")));
  EXPECT_THAT(check_program((dir / "bin").string(), {}),
              FailsWith(ErrorCode::permission_denied, HasSubstr("is a directory")));
}

}  // namespace
}  // namespace gpuwarden::launch
