// SPDX-License-Identifier: Apache-2.0
// Jobs whose time is over, and jobs that are ended for other reasons than their own.
#include <gmock/gmock.h>

#include "gpuwarden/launch/rank_environment.hpp"
#include "launch/jobs.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TimeLimits : public Jobs {
 protected:
  JobSpec limited(const std::string& script, std::chrono::milliseconds time) const {
    JobSpec spec = shell(script, 2);
    spec.time_limit.end = system_clock().now() + time;
    return spec;
  }
};

TEST_F(TimeLimits, AJobThatGoesOnIsEndedWith124) {
  const auto end = run_job(limited("sleep 100", 200ms), system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 124);
  ASSERT_TRUE(end->early.has_value());
  EXPECT_EQ(end->early->kind, EarlyEnd::Kind::out_of_time);
  EXPECT_EQ(end->first_failure, std::nullopt);
}

TEST_F(TimeLimits, OneThatEndsBeforeDoesNotNoticeIt) {
  const auto end = run_job(limited("exit 5", 10min), system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 5);
  EXPECT_FALSE(end->early.has_value());
}

constexpr const char* kSavesWhenTold =
    "trap 'echo saved > $DIR/saved.$RANK; exit 0' USR1; echo up > $DIR/up.$RANK; while :; do sleep 0.02; done";

TEST_F(TimeLimits, ItsRanksHearASignalBeforeAndTheirWordCounts) {
  JobSpec spec = limited(kSavesWhenTold, 60s);
  spec.time_limit.signal = SIGUSR1;
  spec.time_limit.before = 58s;
  const auto end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 0);
  EXPECT_EQ(file("saved.0"), "saved\n");
  EXPECT_EQ(file("saved.1"), "saved\n");
  EXPECT_THAT(end->warnings, ElementsAre(HasSubstr("the ranks were sent SIGUSR1")));
}

TEST_F(TimeLimits, SomebodyElsesLimitIsHisToEnforce) {
  JobSpec spec = limited("sleep 1", 100ms);
  spec.time_limit.ends_job = false;
  const auto end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 0);
  EXPECT_THAT(end->warnings, IsEmpty());
}

TEST_F(Jobs, OneThatIsEndedEarlyKeepsItsOwnCodeAndElseHas1) {
  const auto ended = [&](const std::string& script, EarlyEnd::Kind kind) {
    JobSpec spec = shell("touch $DIR/up.$RANK; " + script, 2);
    const auto end =
        run_job(spec, system_clock(), {.end_early = [&](const std::vector<RankEnd>&) -> std::optional<EarlyEnd> {
                  return file("up.0") == "(none)" || file("up.1") == "(none)" ? std::nullopt
                                                                              : std::optional(EarlyEnd{kind, "why"});
                }});
    EXPECT_THAT(end, IsOk());
    EXPECT_TRUE(end->early.has_value());
    return end->exit_code;
  };
  EXPECT_EQ(ended("sleep 100", EarlyEnd::Kind::no_resources), 143);
  EXPECT_EQ(ended("trap 'exit 0' TERM; while :; do sleep 0.02; done", EarlyEnd::Kind::no_resources), 1);
  EXPECT_EQ(ended("trap 'exit 9' TERM; while :; do sleep 0.02; done", EarlyEnd::Kind::gpus_lost), 9);
}

TEST(RankNumbers, FollowThoseOfTheNodesBefore) {
  JobSpec spec;
  spec.ranks = 2;
  spec.nodes = 3;
  spec.node_rank = 1;
  EXPECT_EQ(rank_environment(spec, 1, 1).at("RANK"), "3");
  spec.first_rank = 4;
  spec.world_size = 9;
  spec.restart_count = 5;
  spec.counted_restarts = 2;
  const Environment environment = rank_environment(spec, 1, 1);
  EXPECT_EQ(environment.at("RANK"), "5");
  EXPECT_EQ(environment.at("WORLD_SIZE"), "9");
  EXPECT_EQ(environment.at("GPUWARDEN_RESTART_COUNT"), "5");
  EXPECT_EQ(environment.at("TORCHELASTIC_RESTART_COUNT"), "2");
}

}  // namespace
}  // namespace gpuwarden::launch
