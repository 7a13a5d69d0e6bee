// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/show.hpp"

#include <thread>

#include "gpuwarden/view/sources.hpp"
#include "machine/simulated.hpp"
#include "support/matchers.hpp"
#include "support/scripted_screen.hpp"

namespace gpuwarden::view {
namespace {

using namespace std::chrono_literals;

class Show : public testing::Machines {
 protected:
  machine::Machine simulated() const {
    machine::Options all = options();
    all.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    auto machine = machine::Machine::open(machine::Simulated{"h100x8"}, all);
    EXPECT_TRUE(machine.has_value());
    return std::move(*machine);
  }
  /// Ends the view when a frame has this text, at the latest after a minute.
  void end_at(const std::string& text) {
    screen_.passed = [this, text, left = 6000]() mutable {
      std::this_thread::sleep_for(10ms);
      found_ = found_ || (!screen_.frames.empty() && to_text(screen_.frames.back(), Colours::none).contains(text));
      if (found_ || --left == 0) stop_.request_stop();
    };
  }

  testing::FakeClock clock_;
  testing::ScriptedScreen screen_{{100, 30}, clock_};
  std::stop_source stop_;
  bool found_ = false;
};

TEST_F(Show, AMachineIsWatchedUntilTheStop) {
  const machine::Machine machine = simulated();
  end_at("H100");
  EXPECT_THAT(show_machine(machine, screen_, {}, {.interval = 100ms, .alerts = {}}, stop_.get_token()),
              testing::IsOk());
  EXPECT_TRUE(found_);
}

TEST_F(Show, ACaptureIsShownAsItIsUntilTheUserEndsIt) {
  facts::Snapshot snapshot = simulated().read();
  const auto captured = machine::Machine::open(machine::Captured{std::move(snapshot), "box.txt"}, options());
  ASSERT_THAT(captured, testing::IsOk());
  screen_.script = {std::nullopt, Key{character(U'q')}};
  EXPECT_THAT(show_machine(*captured, screen_, {}, {}, stop_.get_token()), testing::IsOk());
  ASSERT_FALSE(screen_.frames.empty());
  EXPECT_THAT(to_text(screen_.frames.back(), Colours::none), ::testing::HasSubstr("H100"));
}

TEST_F(Show, OtherMachinesAreShownToo) {
  const FixedNode node(node_of(simulated().read()));
  end_at("H100");
  show_nodes(node, screen_, {}, 1s, stop_.get_token());
  EXPECT_TRUE(found_);
}

}  // namespace
}  // namespace gpuwarden::view
