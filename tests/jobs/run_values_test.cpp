// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/run_values.hpp"

#include <csignal>

#include "gpuwarden/jobs/job.hpp"
#include "jobs/values.hpp"
#include "support/fake_clock.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::jobs {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::refusal;
using testing::said;

Result<launch::TimeLimit> limit_of(const NamedValues& values, const Environment& environment = {}) {
  const gpuwarden::testing::FakeClock clock;
  return time_limit_from(values, environment, clock);
}

TEST(TimeOfAJob, IsWhatIsAskedFor) {
  const gpuwarden::testing::FakeClock clock;
  EXPECT_FALSE(limit_of(said({}))->end);
  EXPECT_EQ(limit_of(said({{"time-limit", "90m"}}))->end, clock.now() + 90min);
  EXPECT_EQ(limit_of(said({{"time-limit", "1-12:00:00"}}))->end, clock.now() + 36h);
  const auto early = limit_of(said({{"time-limit", "10m"}, {"signal", "USR1@60"}}));
  ASSERT_TRUE(early);
  EXPECT_EQ(early->signal, SIGUSR1);
  EXPECT_EQ(early->before, 60s);
}

TEST(TimeOfAJob, MistakesNameWhatWasSaid) {
  EXPECT_EQ(refusal(limit_of(said({{"time-limit", "30"}}))), "--time-limit: 30 has no unit");
  EXPECT_EQ(refusal(limit_of(said({{"time-limit", "1:2:3:4:5"}}))), "--time-limit: '1:2:3:4:5' is not a time");
  EXPECT_EQ(refusal(limit_of(said({{"time-limit", "0s"}}))), "--time-limit must be greater than 0");
  EXPECT_EQ(refusal(limit_of(said({{"signal", "USR1"}}))), "--signal requires --time-limit");
  EXPECT_EQ(refusal(limit_of(said({{"signal", "USR1@60"}, {"time-limit", "30s"}}))),
            "--signal: 1 min 0 s before the end is before the job begins: its time limit is 30 s");
  NamedValues arguments;
  arguments.set("signal", {"USR1"});
  EXPECT_EQ(refusal(limit_of(arguments)), "signal requires time-limit") << "a function's arguments have no dashes";
}

TEST(TimeOfAJob, OfSlurmsCounts) {
  const gpuwarden::testing::FakeClock clock;
  const auto end = std::chrono::floor<std::chrono::seconds>(clock.wall_now().time_since_epoch()) + 100s;
  const auto limit = limit_of(said({{"signal", "USR1@10"}}), {{"SLURM_JOB_END_TIME", std::to_string(end.count())}});
  ASSERT_TRUE(limit && limit->end);
  EXPECT_FALSE(limit->ends_job) << "Slurm does that";
}

TEST(RestartsOfAJob, NeedANumber) {
  const auto policy = restart_policy_from(said({{"max-restarts", "3"}, {"heal", ""}, {"restart-delay", "2s"}}));
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->max_restarts, 3U);
  EXPECT_TRUE(policy->heal);
  EXPECT_EQ(policy->first_pause, 2s);
  EXPECT_EQ(restart_policy_from(said({}))->max_restarts, 0U);
  EXPECT_EQ(refusal(restart_policy_from(said({{"heal", ""}}))), "--heal needs --max-restarts");
}

TEST(RunOptions, AreReadAndBounded) {
  const auto options = run_options_from(said({{"sample-period", "1ms"}, {"hang-timeout", "5m"}}));
  ASSERT_TRUE(options);
  EXPECT_EQ(options->sample_period, 10ms) << "no reading is quicker";
  EXPECT_EQ(options->hang_timeout, 5min);
  EXPECT_EQ(refusal(run_options_from(said({{"hang-timeout", "500ms"}}))),
            "--hang-timeout: at least a second is needed to look twice");
  EXPECT_EQ(refusal(run_options_from(said({{"report", "/nowhere/at/all.json"}}))),
            "--report: cannot write /nowhere/at/all.json");
}

TEST(SeveralRanks, AreANumberAboveOne) {
  EXPECT_EQ(*several_ranks(said({{"nproc-per-node", "4"}})), 4U);
  for (const char* other : {"1", "gpu", "auto", "cpu", "2:4"})
    EXPECT_EQ(*several_ranks(said({{"nproc-per-node", other}})), std::nullopt) << other;
  EXPECT_FALSE(several_ranks(said({{"nproc-per-node", "many"}})));
}

Result<Job> job_of(const NamedValues& values, const Environment& environment = {},
                   std::optional<std::uint32_t> least = {}) {
  return job_from(values, {.argv = {"/bin/true", "now"}, .environment = environment, .gpus = {.least = least}});
}

TEST(JobFromValues, HasRanksNodesAndTheirMeeting) {
  const auto job = job_of(said({{"nproc-per-node", "4"},
                                {"nnodes", "2:3"},
                                {"node-rank", "1"},
                                {"rdzv-endpoint", "10.0.0.7:2222"},
                                {"rdzv-conf", "join_timeout=30,is_host=1"},
                                {"role", "trainer"}}));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->command, "/bin/true now");
  EXPECT_EQ(job->plan.ranks, 4U);
  EXPECT_EQ(job->plan.job.nodes, 3U);
  EXPECT_EQ(job->plan.least_nodes, 2U);
  EXPECT_EQ(job->plan.job.node_rank, 1U);
  EXPECT_EQ(job->plan.job.master_address, "10.0.0.7");
  EXPECT_EQ(job->plan.job.master_port, 2222);
  EXPECT_EQ(job->plan.job.role, "trainer");
  ASSERT_TRUE(job->options.meeting);
  EXPECT_EQ(job->options.meeting->patience, 30s);
  EXPECT_THAT(job->needless, ElementsAre("is_host is not needed: nodes agree without torchrun's store"));
  EXPECT_EQ(job->gpus.gpus.nodes, 3U) << "the choice of GPUs knows of the nodes";
}

TEST(JobFromValues, SlurmSaysWhichNodeThisIs) {
  const auto values = said({{"nnodes", "2"}, {"rdzv-endpoint", "a"}});
  EXPECT_EQ(job_of(values, {{"SLURM_NODEID", "1"}})->plan.job.node_rank, 1U);
  EXPECT_EQ(refusal(job_of(values)), "which of the 2 nodes is this?");
}

TEST(JobFromValues, LastsAsItIsAskedTo) {
  const auto job = job_of(said({{"straggler", "restart"},
                                {"max-restarts", "2"},
                                {"probation", "3m"},
                                {"checkpoint", "state"},
                                {"cpu-fallback", ""}}),
                          {}, 2);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE(job->options.replaces_stragglers);
  EXPECT_EQ(job->options.probation, 3min);
  EXPECT_EQ(job->options.checkpoint, "state");
  EXPECT_TRUE(job->options.cpu_fallback);
  EXPECT_EQ(job->options.policy.max_restarts, 2U);
}

TEST(JobFromValues, ContradictionsAreRefused) {
  EXPECT_EQ(refusal(job_of(said({{"standalone", ""}, {"nnodes", "2"}}))),
            "--standalone and --nnodes exclude each other: --standalone is one node");
  EXPECT_TRUE(job_of(said({{"standalone", ""}, {"nnodes", "1:1"}}))) << "torchrun's examples write that";
  EXPECT_EQ(refusal(job_of(said({{"module", ""}, {"run-path", ""}}))),
            "--run-path and --module cannot be used together");
  EXPECT_EQ(refusal(job_of(said({{"rdzv-endpoint", "a:1"}, {"master-port", "2"}}))),
            "--rdzv-endpoint names the address and the port already");
  EXPECT_EQ(refusal(job_of(said({{"rdzv-backend", "etcd"}}))), "--rdzv-backend: 'etcd' is not known");
  EXPECT_EQ(refusal(job_of(said({{"numa-binding", "moon"}}))), "--numa-binding: 'moon' is not known");
  EXPECT_EQ(refusal(job_of(said({{"straggler", "restart"}}))), "--straggler restart needs --max-restarts");
  EXPECT_EQ(refusal(job_of(said({{"straggler", "restart"}, {"max-restarts", "1"}, {"gpu-ids", "0"}}))),
            "--straggler restart and --gpu-ids cannot be used together");
  EXPECT_EQ(refusal(job_of(said({{"checkpoint", "x"}}))), "--checkpoint requires a range of GPUs or nodes");
}

}  // namespace
}  // namespace gpuwarden::jobs
