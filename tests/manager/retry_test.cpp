// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/retry.hpp"

#include "gpuwarden/manager/release.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(Retry, PausesGrowUpToTheLongestAndVary) {
  const RetryPolicy policy{5, 100ms, 2, 350ms, 0.2};
  EXPECT_EQ(pause_after(policy, 1, 0.5), 100ms);
  EXPECT_EQ(pause_after(policy, 2, 0.5), 200ms);
  EXPECT_EQ(pause_after(policy, 3, 0.5), 350ms);
  EXPECT_EQ(pause_after(policy, 60, 1), 350ms);
  EXPECT_EQ(pause_after(policy, 1, 0), 80ms);
  EXPECT_EQ(pause_after(policy, 1, 1), 120ms);
}

TEST(Retry, AnHourOfBackoffOnTheClockThatIsHandedIn) {
  FakeClock clock;
  unsigned calls = 0;
  std::vector<bool> told;
  RetryHooks hooks;
  hooks.clock = &clock;
  hooks.failed = [&](const Error&, unsigned, bool again) { told.push_back(again); };
  const auto begin = clock.now();
  const auto result = with_retries({4, 1h, 2, 24h, 0}, hooks, [&]() -> Result<int> {
    if (++calls == 4) return 7;
    return fail(ErrorCode::timed_out, "no answer");
  });
  EXPECT_EQ(result.value(), 7);
  EXPECT_EQ(clock.now() - begin, 1h + 2h + 4h);
  EXPECT_THAT(told, ElementsAre(true, true, true));
}

TEST(Retry, WhatTryingCannotHelpIsTriedOnce) {
  FakeClock clock;
  RetryHooks hooks;
  hooks.clock = &clock;
  for (const ErrorCode code : {ErrorCode::invalid_argument, ErrorCode::not_found, ErrorCode::permission_denied,
                               ErrorCode::interrupted, ErrorCode::corrupt}) {
    unsigned calls = 0;
    const auto result = with_retries({3, 1s, 2, 9s, 0}, hooks, [&]() -> Result<void> {
      ++calls;
      return fail(code, "no");
    });
    EXPECT_FALSE(result);
    EXPECT_EQ(calls, 1U) << to_string(code);
  }
}

TEST(Retry, AStopEndsIt) {
  FakeClock clock;
  std::stop_source stop;
  RetryHooks hooks;
  hooks.clock = &clock;
  hooks.stop = stop.get_token();
  unsigned calls = 0;
  const auto result = with_retries({100, 1s, 1, 1s, 0}, hooks, [&]() -> Result<void> {
    if (++calls == 2) stop.request_stop();
    return fail(ErrorCode::failed, "again");
  });
  EXPECT_FALSE(result);
  EXPECT_EQ(calls, 2U);
}

TEST(Release, CachesBeforePoolsBeforeModelsAndTheLargestFirst) {
  const std::vector<ReleaseEntry> entries{{ReleaseKind::model, 4_GiB}, {ReleaseKind::pool, 1_GiB},
                                          {ReleaseKind::cache, {}},    {ReleaseKind::model, 9_GiB},
                                          {ReleaseKind::cache, 1_MiB}, {ReleaseKind::pool, Bytes{}}};
  EXPECT_THAT(release_order(entries), ElementsAre(4, 2, 1, 3, 0));
}

TEST(Release, EndsAsSoonAsEnoughIsFree) {
  ReleaseBook book;
  std::vector<std::string> released;
  const auto add = [&](const std::string& name, Bytes size, bool works = true) {
    book.add({name, ReleaseKind::cache, [size]() -> std::optional<Bytes> { return size; },
              [&released, name, size, works]() -> Result<Bytes> {
                released.push_back(name);
                if (!works) return fail(ErrorCode::failed, name + " is stuck");
                return size;
              }});
  };
  add("small", 1_MiB);
  add("stuck", 9_MiB, false);
  add("large", 8_MiB);
  const auto report = book.release(8_MiB);
  EXPECT_THAT(released, ElementsAre("stuck", "large"));
  EXPECT_TRUE(report.enough);
  EXPECT_EQ(report.freed, 8_MiB);
  ASSERT_TRUE(report.steps.at(0).error);
  EXPECT_EQ(to_json(report)["steps"][0]["error"]["message"], "stuck is stuck");
  EXPECT_FALSE(book.release(1_GiB).enough);
  EXPECT_TRUE(book.remove("small"));
  EXPECT_FALSE(book.remove("small"));
  EXPECT_THAT(book.names(), ElementsAre("stuck", "large"));
}

}  // namespace
}  // namespace gpuwarden::manager
