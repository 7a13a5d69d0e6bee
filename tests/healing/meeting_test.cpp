// SPDX-License-Identifier: Apache-2.0
#include "healing/meeting.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "gpuwarden/base/text.hpp"
#include "healing/meeting_host.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::healing {
namespace {

using namespace std::chrono_literals;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;

/// Nodes of one machine, each with a seat; joining waits for the others, so that it has a thread of its own.
class Meetings : public ::testing::Test {
 protected:
  Meetings() {
    static int number = 0;
    place_.key = fmt::format("test-{}-{}", ::getpid(), ++number);
    place_.address = "127.0.0.1";
    place_.last_call = 200ms;
    place_.patience = testing::kSoon;
  }
  std::unique_ptr<Meeting> seat(std::uint32_t node) const {
    MeetingPlace place = place_;
    place.node = node;
    auto meeting = Meeting::open(place, system_clock());
    EXPECT_THAT(meeting, IsOk());
    return meeting ? std::move(*meeting) : nullptr;
  }
  static std::future<Result<Round>> joining(Meeting& meeting, std::uint32_t ranks) {
    return std::async(std::launch::async, [&meeting, ranks] { return meeting.join(ranks); });
  }
  static Round get(std::future<Result<Round>>& joining) {
    const auto round = joining.get();
    EXPECT_THAT(round, IsOk());
    return round.value_or(Round{});
  }
  static Summons summons_of(Meeting& meeting) {
    std::optional<Summons> summons;
    EXPECT_TRUE(testing::eventually(testing::kSoon, [&] {
      summons = meeting.summons();
      return summons.has_value();
    }));
    return summons.value_or(Summons{});
  }
  void start_two() {
    first_ = seat(0);
    second_ = seat(1);
    auto one = joining(*first_, 2);
    auto other = joining(*second_, 3);
    rounds_ = {get(one), get(other)};
  }

  MeetingPlace place_;
  std::unique_ptr<Meeting> first_;
  std::unique_ptr<Meeting> second_;
  std::vector<Round> rounds_;
};

TEST_F(Meetings, NodesStartTogetherWithRanksThatFollowEachOther) {
  start_two();
  EXPECT_EQ(rounds_[0].first_rank, 0U);
  EXPECT_EQ(rounds_[1].first_rank, 2U);
  EXPECT_EQ(rounds_[1].world_size, 5U);
  EXPECT_EQ(rounds_[1].group_rank, 1U);
  EXPECT_EQ(rounds_[1].nodes, 2U);
  EXPECT_FALSE(first_->summons().has_value()) << "they run";
}

TEST_F(Meetings, AFailureOfOneStartsAllAgainAndCounts) {
  start_two();
  second_->failed(true, true, 7, "a rank\nfailed");
  const Summons summons = summons_of(*first_);
  EXPECT_FALSE(summons.ends);
  EXPECT_THAT(summons.why, HasSubstr("node 1: a rank"));
  auto one = joining(*first_, 2);
  auto other = joining(*second_, 3);
  EXPECT_EQ(get(one).number, 1U);
  const Round round = get(other);
  EXPECT_EQ(round.restarts, 1U);
  EXPECT_EQ(round.number, 1U);
}

TEST_F(Meetings, WhatNoRestartHealsEndsTheJobEverywhere) {
  start_two();
  first_->failed(false, false, 3, "TypeError");
  const Summons summons = summons_of(*second_);
  EXPECT_TRUE(summons.ends);
  EXPECT_EQ(summons.exit_code, 3);
  EXPECT_THAT(summons.why, HasSubstr("TypeError"));
  EXPECT_THAT(second_->join(3), FailsWith(ErrorCode::unsatisfied, HasSubstr("over")));
}

TEST_F(Meetings, WhoIsDoneWaitsForTheOthers) {
  start_two();
  auto done = std::async(std::launch::async, [&] { return first_->done().value_or(Summons{}); });
  EXPECT_EQ(done.wait_for(100ms), std::future_status::timeout);
  second_->failed(true, true, 1, "again");
  EXPECT_EQ(done.get().why, "node 1: again") << "it is started again with the others";
  auto one = joining(*first_, 2);
  auto other = joining(*second_, 3);
  get(one);
  get(other);
  done = std::async(std::launch::async, [&] { return first_->done().value_or(Summons{.exit_code = -1}); });
  const Summons end = second_->done().value_or(Summons{});
  EXPECT_TRUE(end.ends);
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(done.get().exit_code, 0);
}

TEST_F(Meetings, ANodeThatIsGoneEndsAJobOfAFixedNumber) {
  start_two();
  second_.reset();
  const Summons summons = summons_of(*first_);
  EXPECT_TRUE(summons.ends);
  EXPECT_EQ(summons.exit_code, 1);
  EXPECT_EQ(summons.why, "node 1 is gone");
}

TEST_F(Meetings, ANodeThatGoesWhileTheOthersGatherEndsTheJobToo) {
  start_two();
  second_->failed(true, true, 1, "a rank failed");
  EXPECT_FALSE(summons_of(*first_).ends);
  second_.reset();
  EXPECT_THAT(first_->join(2), FailsWith(ErrorCode::unsatisfied, HasSubstr("node 1 is gone")));
}

TEST_F(Meetings, AnElasticJobGoesOnWithoutItAndTakesItBack) {
  place_.least = 1;
  start_two();
  second_.reset();
  EXPECT_FALSE(summons_of(*first_).ends);
  auto alone = joining(*first_, 2);
  const Round round = get(alone);
  EXPECT_EQ(round.nodes, 1U);
  EXPECT_EQ(round.world_size, 2U);
  EXPECT_EQ(round.restarts, 0U);
  second_ = seat(1);
  auto other = joining(*second_, 3);
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] {
    EXPECT_FALSE(first_->summons().has_value()) << "nobody is ended for it";
    return first_->has_newcomer();
  }));
  first_->regroup("a checkpoint was written");
  EXPECT_FALSE(summons_of(*first_).ends);
  auto one = joining(*first_, 2);
  EXPECT_EQ(get(one).nodes, 2U);
  EXPECT_EQ(get(other).first_rank, 2U);
}

TEST_F(Meetings, TheFirstNodesEndIsTheOthersEnd) {
  start_two();
  first_.reset();
  const Summons summons = summons_of(*second_);
  EXPECT_TRUE(summons.ends);
  EXPECT_EQ(summons.why, "the first node is gone");
  EXPECT_FALSE(second_->summons().has_value()) << "said once";
}

TEST_F(Meetings, TooFewNodesAreNotWaitedForForEver) {
  place_.patience = 5s;
  first_ = seat(0);
  EXPECT_THAT(first_->join(1), FailsWith(ErrorCode::unsatisfied, HasSubstr("only 1 of the 2 nodes came")));
  place_.key += "-nobody";
  place_.node = 1;
  testing::FakeClock clock;
  const auto alone = Meeting::open(place_, clock);
  ASSERT_THAT(alone, IsOk());
  EXPECT_THAT((*alone)->join(1), FailsWith(ErrorCode::timed_out, HasSubstr("no gpuwarden of this job answers")));
}

TEST_F(Meetings, ASignalAndTheEndOfTheTimeEndTheWaiting) {
  const std::stop_source stop;
  stop.request_stop();
  const Waiting stopped{.stop = stop.get_token()};
  const Waiting late{.end = system_clock().now()};
  first_ = seat(0);
  second_ = seat(1);
  EXPECT_THAT(first_->join(1, stopped), FailsWith(ErrorCode::interrupted, HasSubstr("waiting for other nodes")));
  EXPECT_THAT(second_->join(1, late), FailsWith(ErrorCode::timed_out, HasSubstr("time was over")));
  first_.reset();
  second_.reset();
  place_.key += "-again";
  start_two();
  EXPECT_THAT(second_->done(stopped), FailsWith(ErrorCode::interrupted, HasSubstr("waiting for other nodes")));
  EXPECT_THAT(first_->join(1, late), FailsWith(ErrorCode::timed_out, HasSubstr("time was over")));
  EXPECT_THAT(first_->done(late), FailsWith(ErrorCode::timed_out, HasSubstr("time was over")));
}

TEST_F(Meetings, OneNumberIsOneNode) {
  first_ = seat(0);
  second_ = seat(1);
  auto twin = seat(1);
  auto one = joining(*second_, 1);
  auto other = joining(*twin, 1);
  std::future<Result<Round>>& refused = one.wait_for(0s) == std::future_status::ready ? one : other;
  const auto host = joining(*first_, 1).get();
  EXPECT_THAT(host, IsOk());
  const bool second_was_first = &refused == &other;
  const auto a = one.get();
  const auto b = other.get();
  EXPECT_NE(a.has_value(), b.has_value()) << second_was_first;
  EXPECT_THAT(a ? b : a, FailsWith(ErrorCode::unsatisfied, HasSubstr("another node has the number 1")));
}

/// Whoever connects to the first node of the job with this key: through the first port on which one welcomes it.
std::optional<Line> visitor(const std::string& key, const std::string& greeting) {
  for (const std::uint16_t port : meeting_ports(key)) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) continue;
    Line line(std::move(fd));
    if (!greeting.empty()) line.say(greeting);
    return line;
  }
  return std::nullopt;
}

/// What it is told next; "(closed)" where it is shown out without a word.
std::string told(Line& line) {
  std::string said = "(nothing)";
  testing::eventually(testing::kSoon, [&] {
    const bool there = line.take();
    const auto next = line.next();
    if (next || !there) said = next.value_or("(closed)");
    return next || !there;
  });
  return said;
}

TEST_F(Meetings, StrangersAreNotSeated) {
  first_ = seat(0);
  // Somebody else's job whose ports are the same.
  auto other_job = visitor(place_.key, meeting_greeting(place_.key + "x"));
  ASSERT_TRUE(other_job.has_value());
  EXPECT_EQ(told(*other_job), "(closed)");
  for (const char* node : {"2", "70000", "-1", "x"}) {
    auto stranger = visitor(place_.key, meeting_greeting(place_.key));
    ASSERT_TRUE(stranger.has_value());
    EXPECT_EQ(told(*stranger), "welcome");
    stranger->say(std::string("join ") + node + " 1");
    EXPECT_EQ(told(*stranger), "end 1 there are no nodes but those numbered 0 to 1") << node;
    EXPECT_EQ(told(*stranger), "(closed)");
  }
  // None of them has a place.
  second_ = seat(1);
  auto one = joining(*first_, 1);
  auto other = joining(*second_, 1);
  EXPECT_EQ(get(one).world_size, 2U);
  EXPECT_EQ(get(other).group_rank, 1U);
}

TEST_F(Meetings, WhoSaysNothingIsShownOut) {
  testing::FakeClock clock;
  place_.patience = std::chrono::hours(1000);
  const auto host = MeetingHost::open(place_, clock);
  ASSERT_THAT(host, IsOk());
  auto silent = visitor(place_.key, "");
  auto greets = visitor(place_.key, meeting_greeting(place_.key));
  ASSERT_TRUE(silent.has_value() && greets.has_value());
  EXPECT_EQ(told(*greets), "welcome");
  // It came before the one that was welcomed.
  clock.advance(5s);
  EXPECT_EQ(told(*silent), "(closed)");
  greets->say("join 1 0");
  EXPECT_EQ(told(*greets), "end 1 a node has at least one rank") << "it is still there";
}

TEST(Words, TheLastOneIsTheRestOfTheLine) {
  EXPECT_EQ(words_of_line("failed 1 1 7 a b c", 5), (std::vector<std::string>{"failed", "1", "1", "7", "a b c"}));
  EXPECT_EQ(words_of_line("", 5), std::vector<std::string>{""});
}

}  // namespace
}  // namespace gpuwarden::healing
