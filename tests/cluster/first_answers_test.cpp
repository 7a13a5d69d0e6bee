// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/first_answers.hpp"

#include "support/fake_clock.hpp"

namespace gpuwarden::cluster {
namespace {

using namespace std::chrono_literals;

/// Two nodes; the second has said something from a moment on.
class SlowNodes final : public NodeSource {
 public:
  SlowNodes(testing::FakeClock& clock, std::chrono::milliseconds needed) : clock_(clock), needed_(needed) {}
  std::vector<Node> nodes() const override {
    std::vector<Node> nodes{{.name = "lost", .problem = Error{ErrorCode::unavailable, "connection refused", ""}},
                            {.name = "slow"}};
    if (answered()) nodes[1].seen = clock_.wall_now();
    return nodes;
  }
  bool answered() const { return clock_.now() - Clock::SteadyTime{} >= needed_; }

 private:
  testing::FakeClock& clock_;
  std::chrono::milliseconds needed_;
};

TEST(FirstAnswers, AreThereAsSoonAsAllHaveAnswered) {
  testing::FakeClock clock;
  const SlowNodes source(clock, 2s);
  const auto nodes = first_answers(source, [&] { return source.answered(); }, 5s, clock);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].problem->message, "connection refused") << "why it is lost stays";
  EXPECT_FALSE(nodes[1].problem.has_value());
  EXPECT_EQ(clock.now() - Clock::SteadyTime{}, 2s) << "no longer than needed";
}

TEST(FirstAnswers, AreNotWaitedForWithoutEnd) {
  testing::FakeClock clock;
  const SlowNodes source(clock, 1h);
  const auto nodes = first_answers(source, [&] { return source.answered(); }, 5s, clock);
  ASSERT_TRUE(nodes[1].problem.has_value());
  EXPECT_EQ(nodes[1].problem->code, ErrorCode::timed_out);
  EXPECT_EQ(nodes[1].problem->message, "timed out after 5.0 s");
  EXPECT_EQ(clock.now() - Clock::SteadyTime{}, 5s);
}

TEST(FirstAnswers, AStopEndsTheWait) {
  testing::FakeClock clock;
  const SlowNodes source(clock, 1h);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(first_answers(source, [&] { return source.answered(); }, 5s, clock, stop.get_token()).size(), 2U);
  EXPECT_EQ(clock.now() - Clock::SteadyTime{}, 0s);
}

TEST(WhyNoneAnswers, IsTheFirstOnesProblemUnlessOneAnswers) {
  EXPECT_EQ(why_none_answers({})->message, "no machine has answered yet");
  std::vector<Node> nodes{
      {.name = "gpu-1", .url = "http://gpu-1:10478", .problem = Error{ErrorCode::unavailable, "it is full", ""}},
      {.name = "gpu-2", .problem = Error{ErrorCode::timed_out, "timed out", ""}}};
  EXPECT_EQ(why_none_answers(nodes)->message, "gpu-1: it is full");
  nodes[0].problem->message = "cannot connect to gpu-1:10478";
  EXPECT_EQ(why_none_answers(nodes)->message, "cannot connect to gpu-1:10478") << "it is named already";
  nodes[1].problem.reset();
  EXPECT_FALSE(why_none_answers(nodes).has_value());
}

}  // namespace
}  // namespace gpuwarden::cluster
