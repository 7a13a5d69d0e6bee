// SPDX-License-Identifier: Apache-2.0
// What a launcher of several nodes asks of each: ranks that count on, the first failure at once, a port that is held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/launch/port.hpp"
#include "gpuwarden/launch/rank_environment.hpp"
#include "launch/jobs.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class ManyNodes : public Jobs {};

TEST_F(ManyNodes, RanksCountFromTheFirstOfTheNode) {
  JobSpec spec = shell("true", 2);
  spec.nodes = 3;
  spec.node_rank = 1;
  spec.first_rank = 5;
  spec.world_size = 8;
  const Environment second = rank_environment(spec, 1, 15000);
  EXPECT_EQ(second.at("RANK"), "6");
  EXPECT_EQ(second.at("WORLD_SIZE"), "8");
  EXPECT_EQ(second.at("LOCAL_RANK"), "1");
  EXPECT_EQ(second.at("LOCAL_WORLD_SIZE"), "2");
  spec.first_rank.reset();
  spec.world_size.reset();
  EXPECT_EQ(rank_environment(spec, 1, 15000).at("RANK"), "3");
  EXPECT_EQ(rank_environment(spec, 1, 15000).at("WORLD_SIZE"), "6");
}

TEST_F(ManyNodes, TheFirstFailureIsToldWhileOthersStillRun) {
  JobSpec spec = shell("[ $RANK = 4 ] && exit 7; touch $DIR/up; trap 'sleep 0.3; exit 0' TERM; sleep 60 & wait", 2);
  spec.first_rank = 3;
  spec.world_size = 5;
  std::vector<std::pair<std::uint32_t, int>> failures;
  bool ended = false;
  JobHooks hooks;
  hooks.ranks_ended = [&] { ended = true; };
  hooks.first_failed = [&](std::uint32_t rank, int code) {
    EXPECT_FALSE(ended);
    failures.emplace_back(rank, code);
  };
  const auto end = run_job(spec, system_clock(), hooks);
  ASSERT_TRUE(end.has_value());
  EXPECT_THAT(failures, ElementsAre(Pair(4U, 7)));
  EXPECT_EQ(end->exit_code, 7);
}

TEST_F(ManyNodes, ARankThatIsKilledIsToldAsAShellWould) {
  std::vector<int> codes;
  JobHooks hooks;
  hooks.first_failed = [&](std::uint32_t, int code) { codes.push_back(code); };
  ASSERT_TRUE(run_job(shell("kill -9 $$"), system_clock(), hooks).has_value());
  EXPECT_THAT(codes, ElementsAre(137));
  codes.clear();
  ASSERT_TRUE(run_job(shell("true", 2), system_clock(), hooks).has_value());
  EXPECT_TRUE(codes.empty());
}

TEST_F(ManyNodes, APortThatIsHeldIsNobodyElsesUntilItIsHandedOver) {
  auto held = HeldPort::any();
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(HeldPort::at(held->number()).error().code, ErrorCode::unavailable);
  ASSERT_TRUE(held->listen().has_value());
  EXPECT_FALSE(check_port(held->number()).has_value());
  held->hand_over();
  EXPECT_TRUE(check_port(held->number()).has_value());
  EXPECT_FALSE(held->listen().has_value());
  EXPECT_FALSE(HeldPort::at(held->number()).has_value()) << "its name is kept";
}

}  // namespace
}  // namespace gpuwarden::launch
