// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/on_slurm.hpp"

#include "gpuwarden/knowledge/overlays.hpp"
#include "jobs/values.hpp"
#include "slurm/fake_programs.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::jobs {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::refusal;
using testing::said;

Result<slurm::Request> request_of(const NamedValues& values) {
  return slurm_request_from(values, {"python", "a/t.py"});
}

TEST(SlurmRequestFromValues, HasWhatSbatchHas) {
  const auto request = request_of(said({{"nodes", "2"},
                                        {"gpus-per-node", "4"},
                                        {"gpu-type", "h100"},
                                        {"mem", "1500MiB"},
                                        {"time", "2h"},
                                        {"qos", "long"},
                                        {"signal", "USR1@90"}}));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->nodes, 2U);
  EXPECT_EQ(request->gpus, 4U);
  EXPECT_EQ(request->gpu_type, "h100");
  EXPECT_EQ(request->memory, "1500M");
  EXPECT_EQ(request->time, 2h);
  EXPECT_EQ(request->qos, "long");
  EXPECT_EQ(request->signal, "USR1@90");
  EXPECT_EQ(request->name, "t") << "the program's, not Python's";
  EXPECT_EQ(request_of(said({{"time", "90"}}))->time, 90min) << "Slurm's minutes";
}

TEST(SlurmRequestFromValues, AGpuForEachRankUnlessMoreIsSaid) {
  EXPECT_EQ(request_of(said({}))->gpus, 1U);
  EXPECT_EQ(request_of(said({{"nproc-per-node", "4"}}))->gpus, 4U);
  EXPECT_EQ(request_of(said({{"nproc-per-node", "4"}, {"num-gpus", "2"}}))->gpus, 2U);
  EXPECT_EQ(request_of(said({{"device", "cpu"}}))->gpus, 0U);
  EXPECT_EQ(refusal(request_of(said({{"gpus-per-node", "2"}, {"num-gpus", "3"}}))),
            "--gpus-per-node 2 and --num-gpus 3 contradict each other");
  EXPECT_EQ(refusal(request_of(said({{"gpu-type", "h100"}, {"gpus-per-node", "0"}}))),
            "--gpu-type, but no GPUs are asked for");
  EXPECT_EQ(refusal(request_of(said({{"device", "cuda:1"}}))), "--slurm and --device cuda:N mean nothing together");
  EXPECT_EQ(refusal(request_of(said({{"time", "soon"}}))), "--time: 'soon' is not a time");
}

TEST(SlurmChecks, WhatSlurmDecidesIsRefused) {
  EXPECT_TRUE(check_for_slurm(said({{"grace", "5s"}})));
  EXPECT_EQ(refusal(check_for_slurm(said({{"gpu-ids", "0"}}))), "--slurm and --gpu-ids mean nothing together");
  EXPECT_EQ(refusal(check_for_slurm(said({{"num-gpus", "1:2"}}))),
            "--slurm and a range of --num-gpus mean nothing together");
  const std::vector<std::string> harmless{"grace"};
  const std::vector<std::string> signal{"grace", "signal"};
  EXPECT_TRUE(check_file_for_slurm(harmless, "job.yaml"));
  EXPECT_EQ(refusal(check_file_for_slurm(signal, "job.yaml")), "--slurm and signal of job.yaml mean nothing together");
  const std::vector<std::string> wait{"wait"};
  EXPECT_EQ(refusal(check_file_for_slurm(wait, "job.yaml")), "--slurm and wait of job.yaml mean nothing together");
}

slurm::Site site() {
  slurm::Site site{.kill_wait = 10s};
  site.partitions = {{.name = "h", .is_default = true, .up = true}};
  site.nodes = {{.name = "h1",
                 .state = "IDLE",
                 .gpus = slurm::gpus_in_gres("gpu:h100:8"),
                 .cpus = 64,
                 .cpus_used = 0,
                 .partitions = {"h"}}};
  return site;
}

TEST(SlurmJobFromValues, IsReadyToBeSubmitted) {
  const gpuwarden::testing::TempDir dir;
  const std::string logs = (dir / "logs/").string();
  const auto job = slurm_job_from(
      said({{"log-dir", logs.c_str()}, {"max-restarts", "2"}, {"restart-arg", "--resume"}, {"drain", "never"}}),
      {{"train"}, "/opt/gpuwarden", {"--quiet"}}, site());
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->log_directory, (dir / "logs").string());
  EXPECT_TRUE(std::filesystem::is_directory(dir / "logs"));
  EXPECT_EQ(job->policy.max_restarts, 2U);
  EXPECT_EQ(job->policy.drains, slurm::Drains::none);
  EXPECT_THAT(job->job.command, HasSubstr("/opt/gpuwarden"));
  EXPECT_THAT(job->job.command, HasSubstr("--grace=5000ms")) << "half of the site's patience";
  EXPECT_THAT(job->job.command, Not(HasSubstr("--resume")));
  EXPECT_THAT(job->policy.again_command, HasSubstr("--resume"));
  const SlurmJobRequest train{{"train"}, "gpuwarden", {}};
  EXPECT_EQ(refusal(slurm_job_from(said({{"restart-arg", "x"}}), train, site())), "--restart-arg needs --max-restarts");
  EXPECT_EQ(refusal(slurm_job_from(said({{"drain", "all"}}), train, site())), "--drain: unknown value 'all'");
  EXPECT_EQ(refusal(slurm_job_from(said({{"log-dir", "/proc/nowhere"}}), train, site())),
            "cannot write logs into /proc/nowhere");
  EXPECT_EQ(refusal(slurm_job_from(said({{"device", "cpu"}, {"nproc-per-node", "gpu"}}), train, site())),
            "--nproc-per-node gpu, but no GPUs are asked for");
  EXPECT_EQ(refusal(slurm_job_from(said({}), {}, site())), "no command to run was given");
}

TEST(SlurmPartition, IsOneOfTheSites) {
  EXPECT_EQ(*known_partition("h", site()), "h");
  EXPECT_EQ(*known_partition("", site()), "");
  EXPECT_EQ(known_partition("x", site()).error().code, ErrorCode::not_found);
}

TEST(SlurmNodes, ThatCannotBeAskedAreTold) {
  slurm::Site none = site();
  none.nodes[0].state = "DOWN";
  slurm::FakePrograms programs;
  const auto knowledge = knowledge::read_knowledge({});
  ASSERT_TRUE(knowledge);
  const auto report = examine_nodes(programs, none, "h", {"gpuwarden", "snapshot"}, *knowledge);
  EXPECT_TRUE(report.machines.empty());
  ASSERT_EQ(report.not_looked_at.size(), 1U);
  EXPECT_EQ(report.not_looked_at[0].machine, "h1");
  EXPECT_TRUE(report.is_bad());
}

}  // namespace
}  // namespace gpuwarden::jobs
