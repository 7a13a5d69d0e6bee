// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/use_watch.hpp"

#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "machine/simulated.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UseWatchTest : public testing::Machines {
 protected:
  void SetUp() override {
    Options all = options();
    all.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    auto opened = Machine::open(Simulated{"h100x8"}, all);
    ASSERT_TRUE(opened) << opened.error().message;
    machine_.emplace(std::move(*opened));
    snapshot_ = machine_->read({.processes = false});
    ASSERT_EQ(snapshot_.gpus.size(), 8U);
  }

  std::optional<Machine> machine_;
  facts::Snapshot snapshot_;
  testing::FakeClock clock_;
};

TEST_F(UseWatchTest, WhatPeopleDisableIsToldApartFromWhatMonitorsJudge) {
  UseWatch use(*machine_, clock_);
  EXPECT_THAT(use.disabled(), IsEmpty());
  ASSERT_THAT(machine_->disablings().disable({snapshot_.gpus[1].gpu.uuid}, "fan is loud", "ann", clock_),
              testing::IsOk());
  facts::Health unfit;
  unfit.uuid = snapshot_.gpus[2].gpu.uuid;
  unfit.state = facts::HealthState::error;
  unfit.since = clock_.wall_now();
  unfit.reason = "Xid 48";
  unfit.causes = {{"xid", unfit.reason, "reset it", true}};
  lease::HealthPublisher publisher(health_places(machine_->options().environment, machine_->reader()), "a monitor", 1s);
  ASSERT_THAT(publisher.publish(std::vector{unfit}, clock_.wall_now(), clock_.now()), testing::IsOk());
  ASSERT_THAT(use.disabled(), SizeIs(1));
  EXPECT_EQ(use.disabled()[0].reason, "fan is loud");
  EXPECT_THAT(use.out_of_use(), SizeIs(2));
  EXPECT_FALSE(use.disablings_problem().has_value());
}

TEST_F(UseWatchTest, AFileThatCannotBeReadEnablesNothing) {
  UseWatch use(*machine_, clock_);
  ASSERT_THAT(machine_->disablings().disable({snapshot_.gpus[1].gpu.uuid}, "fan is loud", "ann", clock_),
              testing::IsOk());
  ASSERT_THAT(use.disabled(), SizeIs(1));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "state")) {
    if (entry.is_regular_file()) testing::put(entry.path(), "{ no JSON");
  }
  EXPECT_THAT(use.disabled(), SizeIs(1));
  EXPECT_THAT(use.out_of_use(), SizeIs(1));
  ASSERT_TRUE(use.disablings_problem().has_value());
}

TEST_F(UseWatchTest, WhyLeasesAreUnknownIsKept) {
  {
    UseWatch use(*machine_, clock_);
    EXPECT_THAT(use.leases(snapshot_), IsEmpty());
    EXPECT_FALSE(use.leases_problem().has_value());
  }
  machine_.reset();  // a process has one fleet at a time
  Options all = options();
  testing::put(dir_ / "a file", "");
  all.lease_directory = dir_ / "a file";
  const auto broken = Machine::open(Simulated{"h100x8"}, all);
  ASSERT_TRUE(broken) << broken.error().message;
  UseWatch unknown(*broken, clock_);
  EXPECT_THAT(unknown.leases(snapshot_), IsEmpty());
  EXPECT_TRUE(unknown.leases_problem().has_value());
}

TEST_F(UseWatchTest, OneLookTellsLeasesAndWhatIsOutOfUse) {
  ASSERT_THAT(machine_->disablings().disable({snapshot_.gpus[1].gpu.uuid}, "fan is loud", "ann", clock_),
              testing::IsOk());
  const auto held = reserve(*machine_, {.gpus = {.gpu_ids = {{"5"}}}}, {"a-run", "train"}, system_clock(), {});
  ASSERT_THAT(held, testing::IsOk());
  const UseNow use = use_now(*machine_, snapshot_, clock_.wall_now());
  ASSERT_THAT(use.leases, SizeIs(1));
  EXPECT_EQ(use.leases[0].uuid, snapshot_.gpus[5].gpu.uuid);
  EXPECT_THAT(use.out_of_use.disabled, SizeIs(1));
  EXPECT_FALSE(use.leases_problem || use.out_of_use_problem);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "state")) {
    if (entry.is_regular_file()) testing::put(entry.path(), "{ no JSON");
  }
  const UseNow unknown = use_now(*machine_, snapshot_, clock_.wall_now());
  ASSERT_TRUE(unknown.out_of_use_problem.has_value());
  EXPECT_EQ(unknown.out_of_use_problem->code, ErrorCode::corrupt);
}

TEST_F(UseWatchTest, AProgramThatIsToSeeTheFleetFindsItAndKeepsItsOwnVariables) {
  const Environment seen = machine_->environment_for({{"HOME", "/home/ann"}, {"LD_LIBRARY_PATH", "/opt/lib"}});
  EXPECT_EQ(seen.at("HOME"), "/home/ann");
  EXPECT_TRUE(seen.contains("GPUWARDEN_SIMULATE"));
  EXPECT_TRUE(seen.at("LD_LIBRARY_PATH").ends_with(":/opt/lib")) << "the simulator's go before it";
}

}  // namespace
}  // namespace gpuwarden::machine
