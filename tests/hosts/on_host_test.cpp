// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/on_host.hpp"

#include "gpuwarden/hosts/run.hpp"
#include "machine/simulated.hpp"
#include "support/fake_clock.hpp"

namespace gpuwarden::hosts {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(PlaceOfRanks, IsWhatTheLauncherSays) {
  launch::JobSpec job;
  job.argv = {"train"};
  const Start start{.node = 1,
                    .nodes = 3,
                    .first_rank = 4,
                    .world_size = 12,
                    .address = "10.0.0.7",
                    .port = 1234,
                    .job = "run-7",
                    .restart_count = 2,
                    .max_restarts = 5,
                    .arguments = {"--resume"}};
  place_ranks(start, job);
  EXPECT_EQ(job.node_rank, 1U);
  EXPECT_EQ(job.nodes, 3U);
  EXPECT_EQ(job.first_rank, 4U);
  EXPECT_EQ(job.world_size, 12U);
  EXPECT_EQ(job.master_address, "10.0.0.7");
  EXPECT_EQ(job.master_port, 1234);
  EXPECT_EQ(job.rendezvous_id, "run-7");
  EXPECT_EQ(job.restart_count, 2U);
  EXPECT_EQ(job.max_restarts, 5U);
  EXPECT_THAT(job.argv, ElementsAre("train", "--resume"));
}

TEST(TimeOfRanks, BeginsNow) {
  const Clock::SteadyTime now{100s};
  EXPECT_FALSE(time_limit_of({}, now).end.has_value());
  const launch::TimeLimit limit =
      time_limit_of({.time_left = 90s, .time_ends_job = false, .time_signal = 10, .time_signal_before = 5s}, now);
  EXPECT_EQ(limit.end, now + 90s);
  EXPECT_FALSE(limit.ends_job);
  EXPECT_EQ(limit.signal, 10);
  EXPECT_EQ(limit.before, 5s);
}

TEST(PostMortem, IsThatOfTheHostThatFailedFirst) {
  HostsTry last;
  last.hosts.resize(2);
  EXPECT_FALSE(post_mortem_of(last).has_value()) << "none failed";
  last.failed_host = 1;
  EXPECT_FALSE(post_mortem_of(last).has_value()) << "it is lost";
  last.hosts[1].done.emplace().report = R"({"exit_code": 7})";
  ASSERT_TRUE(post_mortem_of(last).has_value());
  EXPECT_EQ(post_mortem_of(last)->at("exit_code"), 7);
  last.hosts[1].done->report = "";
  EXPECT_FALSE(post_mortem_of(last).has_value());
}

class ThisNode : public testing::Machines {};

TEST_F(ThisNode, HasItsGpusWithWhoHoldsThemAndTheirHealth) {
  machine::Options all = options();
  all.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
  const auto machine = machine::Machine::open(machine::Simulated{"h100x8"}, all);
  ASSERT_TRUE(machine) << machine.error().message;
  testing::FakeClock clock;
  const Uuid gpu = machine->read().gpus.at(2).gpu.uuid;
  ASSERT_TRUE(machine->disablings().disable({gpu}, "fan is loud", "ann", clock));
  const cluster::Node node = this_node(*machine, clock);
  ASSERT_NE(node.reading, nullptr);
  EXPECT_EQ(node.reading->snapshot.gpus.size(), 8U);
  EXPECT_TRUE(node.reading->leases.empty());
  EXPECT_FALSE(node.leases_problem.has_value());
  EXPECT_EQ(node.seen, clock.wall_now());
  ASSERT_EQ(node.health.size(), 8U);
  EXPECT_EQ(node.health[2].state, facts::HealthState::disabled);
}

}  // namespace
}  // namespace gpuwarden::hosts
