// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "gpuwarden/launch/time_limit.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;
using testing::FailsWith;
using ::testing::HasSubstr;

TEST(EarlySignal, HasANameOrANumberAndATime) {
  EXPECT_EQ(parse_signal("USR1"), SIGUSR1);
  EXPECT_EQ(parse_signal("SIGTERM"), SIGTERM);
  EXPECT_EQ(parse_signal("10"), 10);
  for (const char* wrong : {"", "usr1", "0", "-1", "9999", "SIGNAL"}) EXPECT_EQ(parse_signal(wrong), std::nullopt);
  const auto minute = parse_early_signal("USR1");
  ASSERT_THAT(minute, testing::IsOk());
  EXPECT_EQ(minute->signal, SIGUSR1);
  EXPECT_EQ(minute->before, 60s) << "Slurm's default";
  EXPECT_FALSE(minute->end.has_value());
  EXPECT_EQ(parse_early_signal("B:TERM@2m")->before, 2min);
  EXPECT_EQ(parse_early_signal("10@30")->before, 30s);
  EXPECT_THAT(parse_early_signal("USRX@60"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("'USRX' is not a signal")));
  EXPECT_FALSE(parse_early_signal("USR1@soon"));
  EXPECT_FALSE(parse_early_signal("USR1@-5"));
}

TEST(LeftBySlurm, IsTheTimeUntilTheJobEnds) {
  const Clock::WallTime now{1'000'000s};
  EXPECT_EQ(left_by_slurm({{"SLURM_JOB_END_TIME", "1000090"}}, now), 90s);
  EXPECT_EQ(left_by_slurm({{"SLURM_JOB_END_TIME", "999990"}}, now), -10s) << "it is over";
  for (const char* nothing : {"", "0", "tomorrow"})
    EXPECT_EQ(left_by_slurm({{"SLURM_JOB_END_TIME", nothing}}, now), std::nullopt) << nothing;
  EXPECT_EQ(left_by_slurm({}, now), std::nullopt);
}

TEST(TimeLimit, EndsWithWhatComesFirst) {
  const Clock::SteadyTime now{100s};
  const TimeLimit own = with_end({}, 10s, 20s, now);
  EXPECT_EQ(own.end, now + 10s);
  EXPECT_TRUE(own.ends_job);
  const TimeLimit slurm = with_end({}, 30s, 20s, now);
  EXPECT_EQ(slurm.end, now + 20s);
  EXPECT_FALSE(slurm.ends_job) << "Slurm does";
  EXPECT_FALSE(with_end({}, std::nullopt, 20s, now).end.has_value()) << "nobody asked";
  EXPECT_EQ(with_end({.signal = SIGUSR1}, std::nullopt, 20s, now).end, now + 20s) << "the signal comes before it";
  EXPECT_FALSE(with_end({.signal = SIGUSR1}, std::nullopt, std::nullopt, now).end.has_value());
}

}  // namespace
}  // namespace gpuwarden::launch
