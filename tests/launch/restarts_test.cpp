// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/restarts.hpp"

#include <gmock/gmock.h>

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;
using knowledge::Restart;

constexpr Clock::SteadyTime kNow{1h};

RestartDecision decide(Restarts& restarts, const Failure& failure, const TimeLimit& limit = {}) {
  return restarts.decide(failure, limit, kNow, 0.5);
}

TEST(Restarts, AFailureThatMayPassIsTriedAsOftenAsIsAllowed) {
  Restarts restarts({.max_restarts = 2});
  EXPECT_TRUE(decide(restarts, {.why = "exit code 1"}).restarts);
  EXPECT_TRUE(restarts.any_left());
  EXPECT_TRUE(decide(restarts, {}).restarts);
  EXPECT_EQ(restarts.counted(), 2U);
  EXPECT_EQ(decide(restarts, {}).text, "no restart is left of 2");
  Restarts none{RestartPolicy{}};
  EXPECT_EQ(decide(none, {.final_because = "lost b"}).text, "") << "none was asked for";
}

TEST(Restarts, ThePausesGrowAndBeginAnewAfterATryThatWasWell) {
  Restarts restarts({.max_restarts = 10, .first_pause = 1s, .healthy = 10min});
  EXPECT_EQ(decide(restarts, {.lasted = 5s}).pause, 1s);
  EXPECT_EQ(decide(restarts, {.lasted = 5s}).pause, 2s);
  EXPECT_EQ(decide(restarts, {.lasted = 9min}).pause, 4s);
  EXPECT_EQ(decide(restarts, {.lasted = 10min}).pause, 1s) << "it was well for ten minutes";
  EXPECT_EQ(decide(restarts, {.lasted = 5s}).pause, 2s);
}

TEST(Restarts, WhatEndsEveryTryTheSameWayNeedsARemedy) {
  const Failure hopeless{.restart = Restart::never, .why = "GPU memory is fragmented", .remedy = {{"A", "1"}}};
  Restarts plain({.max_restarts = 3});
  const auto refused = decide(plain, hopeless);
  EXPECT_FALSE(refused.restarts);
  EXPECT_EQ(refused.text, "another try would end the same way: GPU memory is fragmented; --heal would set A=1");
  Restarts heals({.max_restarts = 3, .heal = true});
  EXPECT_TRUE(decide(heals, hopeless).remedied);
  const Failure crowded{.restart = Restart::never, .why = "x", .other_remedy = "with 2 instead of 4 GPUs"};
  EXPECT_EQ(decide(plain, crowded).text,
            "another try would end the same way: x; --heal would start it with 2 instead of 4 GPUs");
  EXPECT_TRUE(decide(heals, crowded).remedied);
  EXPECT_FALSE(decide(heals, {.restart = Restart::never, .why = "TypeError"}).restarts) << "no remedy is known";
  EXPECT_EQ(decide(heals, {.final_because = "lost b"}).text, "it is not started again: lost b");
}

TEST(Restarts, NoneBeginsWithoutTimeToSave) {
  Restarts restarts({.max_restarts = 3, .first_pause = 10s});
  const TimeLimit limit{.end = kNow + 69s, .signal = 10, .before = 60s};
  EXPECT_EQ(decide(restarts, {}, limit).text, "no time is left for another try");
  EXPECT_EQ(restarts.counted(), 0U);
  EXPECT_TRUE(decide(restarts, {}, {.end = kNow + 5min}).restarts);
}

TEST(Restarts, WhoeverEndsAJobForAnotherTryKnowsBeforeWhetherItMayFollow) {
  Restarts restarts({.max_restarts = 2, .first_pause = 10s, .healthy = 10min});
  EXPECT_TRUE(restarts.may_follow({}, kNow, 0s));
  EXPECT_FALSE(restarts.may_follow({.end = kNow + 11s}, kNow, 0s)) << "the jitter may make it 12 s";
  EXPECT_TRUE(restarts.may_follow({.end = kNow + 13s}, kNow, 0s));
  EXPECT_TRUE(decide(restarts, {}).restarts);
  EXPECT_FALSE(restarts.may_follow({.end = kNow + 13s}, kNow, 0s)) << "the next pause is twice as long";
  EXPECT_TRUE(restarts.may_follow({.end = kNow + 13s}, kNow, 10min)) << "but not after a try that was well";
  EXPECT_TRUE(decide(restarts, {}).restarts);
  EXPECT_FALSE(restarts.may_follow({}, kNow, 0s)) << "none is left";
}

TEST(Restarts, AskingAgainForWhatCannotBeHadCountsToo) {
  Restarts restarts({.max_restarts = 2, .first_pause = 1s});
  EXPECT_EQ(restarts.again_later({}, kNow), 1s);
  EXPECT_EQ(restarts.again_later({}, kNow), 2s);
  EXPECT_EQ(restarts.again_later({}, kNow), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::launch
