// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/health_notices.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpuwarden/base/file.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::lease {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HealthNoticesTest : public ::testing::Test {
 protected:
  HealthPlaces places() const { return {dir_ / "health", dir_ / "health"}; }
  static facts::Health in_error(const std::string& uuid) {
    facts::Health health;
    health.uuid = Uuid(uuid);
    health.state = facts::HealthState::error;
    health.reason = "fell off the bus";
    return health;
  }
  Result<void> publish(HealthPublisher& publisher, const std::vector<facts::Health>& health) const {
    return publisher.publish(health, clock_.wall_now(), clock_.now());
  }
  HealthView read() const { return read_health(places(), clock_.wall_now()); }

  TempDir dir_;
  FakeClock clock_;
};

TEST_F(HealthNoticesTest, WhatIsInErrorIsToldUntilItIsWellAgain) {
  HealthPublisher publisher(places(), "gpuwarden serve", 1s);
  facts::Health fit;
  fit.uuid = Uuid("GPU-fit");
  ASSERT_THAT(publish(publisher, {in_error("GPU-a"), fit}), IsOk());
  const auto view = read();
  ASSERT_THAT(view.unfit, SizeIs(1));
  EXPECT_EQ(view.unfit[0].uuid.value, "GPU-a");
  EXPECT_EQ(view.unfit[0].reason, "judged unfit: fell off the bus");
  EXPECT_THAT(view.unfit[0].by, HasSubstr("gpuwarden serve (pid "));
  EXPECT_EQ(view.unfit[0].for_everybody, ::geteuid() == 0);
  ASSERT_THAT(publish(publisher, {fit}), IsOk());
  EXPECT_THAT(read().unfit, IsEmpty());
  EXPECT_THAT(list_directory(places().everybody), IsEmpty()) << "nothing is left behind";
}

TEST_F(HealthNoticesTest, WhoHasNotJudgedForLongIsNotBelieved) {
  HealthPublisher publisher(places(), "gpuwarden serve", 1s);
  ASSERT_THAT(publish(publisher, {in_error("GPU-a")}), IsOk());
  clock_.advance(89s);
  EXPECT_THAT(read().unfit, SizeIs(1));
  clock_.advance(2s);
  EXPECT_THAT(read().unfit, IsEmpty());
  EXPECT_THAT(read().warnings, IsEmpty());
  // It goes on, and its word is good again though nothing has changed.
  ASSERT_THAT(publish(publisher, {in_error("GPU-a")}), IsOk());
  EXPECT_THAT(read().unfit, SizeIs(1));
}

TEST_F(HealthNoticesTest, TheWordOfAMonitorThatWasKilledCountsNoMore) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t monitor = ::fork();
  ASSERT_GE(monitor, 0);
  if (monitor == 0) {
    HealthPublisher publisher(places(), "gpuwarden serve", 1s);
    const bool told = publish(publisher, {in_error("GPU-a")}).has_value();
    if (::write(pipe[1], told ? "y" : "n", 1) == 1) ::pause();
    ::_exit(1);
  }
  char told = 0;
  ASSERT_EQ(::read(pipe[0], &told, 1), 1);
  ASSERT_EQ(told, 'y');
  EXPECT_THAT(read().unfit, SizeIs(1));
  ::kill(monitor, SIGKILL);
  ::waitpid(monitor, nullptr, 0);
  EXPECT_THAT(read().unfit, IsEmpty());
  EXPECT_THAT(list_directory(places().everybody), IsEmpty()) << "it is cleared away";
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(HealthNoticesTest, AFileThatOthersMayWriteOrThatIsDamagedSaysNothingAndIsNamed) {
  HealthPublisher publisher(places(), "gpuwarden serve", 1s);
  ASSERT_THAT(publish(publisher, {in_error("GPU-a")}), IsOk());
  const auto file = list_directory(places().everybody).at(0);
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  EXPECT_THAT(read().unfit, IsEmpty());
  ASSERT_THAT(read().warnings, SizeIs(1));
  EXPECT_THAT(read().warnings[0], HasSubstr("others may write to it"));
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  ASSERT_EQ(::truncate(file.c_str(), 20), 0);
  EXPECT_THAT(read().unfit, IsEmpty());
  ASSERT_THAT(read().warnings, SizeIs(1));
  EXPECT_THAT(read().warnings[0], HasSubstr("damaged"));
}

TEST_F(HealthNoticesTest, ControlCharactersOfAReasonDoNotReachATerminal) {
  HealthPublisher publisher(places(), "x\x1b[31m", 1s);
  auto health = in_error("GPU-a");
  health.reason = "\x1b[31mred";
  ASSERT_THAT(publish(publisher, {health}), IsOk());
  ASSERT_THAT(read().unfit, SizeIs(1));
  EXPECT_EQ(read().unfit[0].reason.find('\x1b'), std::string::npos);
  EXPECT_EQ(read().unfit[0].by.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace gpuwarden::lease
