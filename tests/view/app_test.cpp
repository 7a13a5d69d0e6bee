// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/app.hpp"

#include "support/scripted_screen.hpp"
#include "view/scenes.hpp"

namespace gpuwarden::view {
namespace {

using testing::FakeClock;
using ::testing::HasSubstr;
using testing::ScriptedScreen;

/// One GPU that is read anew whenever somebody says so.
class Machine final : public cluster::NodeSource {
 public:
  explicit Machine(FakeClock& clock) : clock_(clock) {}
  std::vector<cluster::Node> nodes() const override { return {node_}; }
  void read() {
    facts::Snapshot snapshot = testing::working_fleet(1, ++second_);
    snapshot.taken_at = clock_.wall_now();
    node_ = testing::node_with(std::move(snapshot));
  }

 private:
  FakeClock& clock_;
  cluster::Node node_;
  std::int64_t second_ = 0;
};

class Notes final : public Actions {
 public:
  Result<void> signal(const Target& target, int signal) override {
    sent.emplace_back(target.pid, signal);
    return answer;
  }
  Result<void> acknowledge(const std::string& /*node*/, std::uint64_t alert) override {
    acknowledged.push_back(alert);
    return answer;
  }
  std::vector<std::pair<Pid, int>> sent;
  std::vector<std::uint64_t> acknowledged;
  Result<void> answer;
};

class AppTest : public ::testing::Test {
 protected:
  /// Runs the script's steps: a key each; '.' lets the time of a wait pass.
  void run(std::string_view steps) {
    for (const char step : steps)
      screen_.script.push_back(step == '.' ? std::nullopt : std::optional(Key{character(static_cast<char32_t>(step))}));
    std::stop_source stop;
    screen_.finished = [&stop] { stop.request_stop(); };
    screen_.passed = [this] { machine_.read(); };
    machine_.read();
    view::run({.screen = screen_, .nodes = machine_, .actions = actions_, .clock = clock_}, {}, {}, stop.get_token());
  }
  std::string last() const { return screen_.frames.back().text(); }

  FakeClock clock_;
  ScriptedScreen screen_{{80, 24}, clock_};
  Machine machine_{clock_};
  Notes actions_;
};

TEST_F(AppTest, ShowsTheFirstFrameBeforeAnyKey) {
  run("q");
  ASSERT_EQ(screen_.frames.size(), 1U);
  EXPECT_THAT(last(), HasSubstr("H100 80GB HBM3"));
  EXPECT_TRUE(screen_.mouse);
}

TEST_F(AppTest, GraphsGrowWithReadings) {
  run("......q");
  EXPECT_GE(screen_.frames.size(), 6U);
  EXPECT_THAT(last(), HasSubstr("⣿⣿"));
}

TEST_F(AppTest, AStepBackShowsWhatWasAndSaysSo) {
  run("...[[[.q");
  EXPECT_THAT(last(), HasSubstr("PAUSED 0:04 ago"));
  // The first frame is the moment that is shown again, but for the graph that ended there, too.
  EXPECT_EQ(screen_.frames.back().row(2), screen_.frames.front().row(2));
  EXPECT_NE(screen_.frames.back().row(2), screen_.frames[3].row(2));
}

TEST_F(AppTest, ASignalThatIsRefusedIsTold) {
  actions_.answer = fail(ErrorCode::permission_denied, "no permission to signal process 1000", "ask its owner");
  run("\tTy.");
  ASSERT_EQ(actions_.sent.size(), 1U);
  EXPECT_EQ(actions_.sent[0], std::pair(Pid{1000}, 15));
  EXPECT_THAT(last(), HasSubstr("no permission to signal process 1000 (ask its owner)"));
}

TEST_F(AppTest, ASignalThatWasSentIsTold) {
  run("\tK3y.");
  ASSERT_EQ(actions_.sent.size(), 1U);
  EXPECT_EQ(actions_.sent[0].second, 3);
  EXPECT_THAT(last(), HasSubstr("signal 3 sent to 1 process"));
}

TEST_F(AppTest, KeysThatAreThereAtOnceMakeOneFrame) {
  run("jjjjjjjjjj.q");
  EXPECT_LE(screen_.frames.size(), 3U);
}

TEST_F(AppTest, RedrawsEverythingOnCtrlL) {
  run("\x0c.q");
  EXPECT_EQ(screen_.forgotten, 1);
}

TEST_F(AppTest, EndsWhenItIsStopped) {
  run("..");
  EXPECT_GE(screen_.frames.size(), 2U);
}

}  // namespace
}  // namespace gpuwarden::view
