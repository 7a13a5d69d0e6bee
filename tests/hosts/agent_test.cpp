// SPDX-License-Identifier: Apache-2.0
// An agent, with a launcher of the test's at the other end of its streams and a job that does nothing.
#include "gpuwarden/hosts/agent.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "gpuwarden/base/child.hpp"
#include "hosts/message.hpp"
#include "hosts/protocol.hpp"
#include "support/fake_clock.hpp"
#include "support/patience.hpp"

namespace gpuwarden::hosts {
namespace {

using std::chrono::seconds;

class IdleWork final : public AgentWork {
 public:
  Result<Held> hold(const Order& order, const std::stop_token&, const RunEars& ears) override {
    ears.warning("leases hold here alone");
    if (order.command.empty())
      return fail(ErrorCode::unsatisfied, "only 1 of the 2 requested GPUs is available", "wait");
    holds = true;
    return Held{{0, 1}, "H100", 2, true};
  }
  Done run(const Start& start, const std::stop_token& stop, const RunEars& ears) override {
    ranks_fd_write("[rank 5] hello\n");
    running = true;
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    if (start.restart_count == 1) ears.first_failed(start.first_rank, 3);
    if (start.restart_count == 0) changed.wait(lock, stop, [] { return false; });
    running = false;
    Done done;
    done.exit_code = stop.stop_requested() ? 143 : 3;
    done.interrupted = stop.stop_requested();
    return done;
  }
  Result<Json> look(const std::vector<std::string>& options) override { return Json{{"name", options.at(0)}}; }

  void ranks_fd_write(std::string_view text) const {
    EXPECT_EQ(::write(ranks_output, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  int ranks_output = -1;
  std::atomic<bool> holds = false;
  std::atomic<bool> running = false;
};

class AgentTest : public ::testing::Test {
 protected:
  AgentTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()), 0);
    ours_.reset(pair[0]);
    output_ = make_pipe().value();
    errors_ = make_pipe().value();
    for (const int fd : {output_.read_end.get(), errors_.read_end.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    work_.ranks_output = output_.write_end.get();
    AgentStreams streams;
    streams.in.reset(pair[1]);
    streams.out.reset(::fcntl(pair[1], F_DUPFD_CLOEXEC, 3));
    streams.output = std::move(output_.read_end);
    streams.errors = std::move(errors_.read_end);
    options_.machine = "m";
    options_.abandon = [] { ADD_FAILURE() << "the job did not end"; };
    agent_ = std::jthread([this, taken = std::make_shared<AgentStreams>(std::move(streams))] {
      serve_launcher(std::move(*taken), work_, options_, clock_);
      over_ = true;
    });
  }
  ~AgentTest() override { ours_.reset(); }

  void send(std::string_view type, const Json& head = Json::object()) {
    const std::string text = encode(type, head);
    EXPECT_EQ(::send(ours_.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// The next message of this type; what comes before it is left out.
  Message hear(std::string_view type) {
    Message heard;
    const bool came = gpuwarden::testing::eventually(gpuwarden::testing::kSoon, [&] {
      std::array<char, 65536> block{};
      const ssize_t got = ::read(ours_.get(), block.data(), block.size());
      if (got > 0) reader_.add(std::string_view(block.data(), static_cast<std::size_t>(got)));
      for (;;) {
        auto message = reader_.next();
        if (!message || !*message) return false;
        if ((*message)->type != type) continue;
        heard = **message;
        return true;
      }
    });
    EXPECT_TRUE(came) << "no " << type;
    return heard;
  }
  bool is_over() {
    return gpuwarden::testing::eventually(gpuwarden::testing::kSoon, [&] { return over_.load(); });
  }
  void begin_job(std::uint32_t restart_count = 0) {
    Order order;
    order.command = {"train"};
    send(kOrder, to_json(order));
    EXPECT_EQ(held_from_json(hear(kHeld).head).value().ranks, 2U);
    Start start;
    start.first_rank = 4;
    start.restart_count = restart_count;
    send(kStart, to_json(start));
  }

  gpuwarden::testing::FakeClock clock_;
  IdleWork work_;
  AgentOptions options_;
  UniqueFd ours_;
  Pipe output_;
  Pipe errors_;
  MessageReader reader_;
  std::atomic<bool> over_ = false;
  std::jthread agent_;
};

TEST_F(AgentTest, GreetsHoldsAndPassesOutputOn) {
  EXPECT_EQ(hear(kHello).head["machine"], "m");
  begin_job();
  const Message output = hear(kOutput);
  EXPECT_EQ(output.head["rank"], 5);
  EXPECT_EQ(output.body, "hello\n");
  EXPECT_TRUE(work_.running);
}

TEST_F(AgentTest, TellsOfAFailureAtOnceAndOfTheEndBehindAllOutput) {
  begin_job(1);
  EXPECT_EQ(hear(kFailed).head["rank"], 4);
  EXPECT_EQ(done_from_json(hear(kDone).head).value().exit_code, 3);
  begin_job(2);  // it goes on to serve
  EXPECT_EQ(done_from_json(hear(kDone).head).value().exit_code, 3);
}

TEST_F(AgentTest, TellsWhyItDoesNotHold) {
  send(kOrder, to_json(Order{}));
  EXPECT_EQ(hear(kSaid).head["text"], "leases hold here alone");
  const Error told = error_from_json(hear(kProblem).head);
  EXPECT_EQ(told.code, ErrorCode::unsatisfied);
  EXPECT_EQ(told.message, "only 1 of the 2 requested GPUs is available");
}

TEST_F(AgentTest, EndsItsJobWhenItsInputEnds) {
  begin_job();
  hear(kOutput);
  ours_.reset();
  EXPECT_TRUE(is_over());
  EXPECT_FALSE(work_.running);
}

TEST_F(AgentTest, EndsItsJobWhenTheLauncherFallsSilent) {
  begin_job();
  hear(kOutput);
  clock_.advance(kDeadMan - seconds(1));
  send(kBeat, {{"sent", 7}});
  EXPECT_EQ(hear(kBeat).head["echo"], 7);
  clock_.advance(kDeadMan - seconds(1));
  send(kBeat, {{"sent", 8}});
  EXPECT_EQ(hear(kBeat).head["echo"], 8) << "a word in time keeps it";
  EXPECT_TRUE(work_.running);
  clock_.advance(kDeadMan + seconds(1));
  EXPECT_TRUE(is_over()) << "though the connection is open";
  EXPECT_FALSE(work_.running);
}

TEST_F(AgentTest, ShowsItsMachineAndRefusesNonsense) {
  send(kLook, {{"options", {"x"}}});
  EXPECT_EQ(hear(kNode).head["node"]["name"], "x");
  send("dance");
  EXPECT_EQ(hear(kProblem).head["message"], "unknown message 'dance'");
  send(kStart, {{"node", "first"}});
  EXPECT_EQ(hear(kProblem).head["message"], "a message without a proper 'node'");
}

TEST_F(AgentTest, HoldsAPortThatOthersReachAndNamesIt) {
  send(kMeet, {{"port", 0}});
  Meeting meeting = meeting_from_json(hear(kMeeting).head).value();
  EXPECT_GE(meeting.port, 15000);
  meeting.addresses = {"127.0.0.1"};
  // The same agent tries: its loop greets while a thread of it connects.
  send(kTry, {{"meeting", to_json(meeting)}});
  const Json reached = hear(kReached).head["reached"];
  ASSERT_EQ(reached.size(), 1U);
  EXPECT_EQ(reached[0]["problem"], "");
}

}  // namespace
}  // namespace gpuwarden::hosts
