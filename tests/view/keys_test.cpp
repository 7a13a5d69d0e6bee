// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/keys.hpp"

#include <set>

#include "view/scenes.hpp"

namespace gpuwarden::view {
namespace {

using ::testing::HasSubstr;
using testing::press;
using testing::Stage;
using testing::type;

TEST(KeyTable, NoKeyMeansTwoThingsInOnePlace) {
  for (const unsigned context : {on_overview, on_detail, on_alerts, on_help}) {
    std::set<KeyCode> taken;
    for (const KeyRow& row : key_rows()) {
      EXPECT_FALSE(row.help.empty());
      if ((row.contexts & context) == 0) continue;
      for (const KeyCode key : row.keys) EXPECT_TRUE(key == KeyCode::none || taken.insert(key).second) << name_of(key);
    }
  }
}

TEST(KeyTable, KeysOfNvtopAndNvitopAreThere) {
  std::set<KeyCode> known;
  for (const KeyRow& row : key_rows()) known.insert(row.keys.begin(), row.keys.end());
  for (const KeyCode key : {KeyCode::f6, KeyCode::f9, KeyCode::f10, control('L'), KeyCode::tab, KeyCode::home})
    EXPECT_TRUE(known.contains(key)) << name_of(key);
  for (const char key : std::string_view("qhjkafctorITK+-,. ?")) EXPECT_TRUE(known.contains(character(key))) << key;
}

TEST(Keys, HaveTheNamesThatPeopleUse) {
  EXPECT_EQ(name_of(KeyCode::f10), "F10");
  EXPECT_EQ(name_of(control('L')), "Ctrl-L");
  EXPECT_EQ(name_of(character(' ')), "Space");
  EXPECT_EQ(name_of(character(U'ö')), "ö");
}

ViewState at_processes(const Stage& stage) {
  ViewState state;
  press(state, stage.scene, Key{KeyCode::tab});
  return state;
}

TEST(Keys, ASignalIsSentOnlyAfterAYes) {
  const Stage stage(8, 1);
  for (const char answer : {'n', 'q', ' ', '\x1b', '\n'}) {
    ViewState state = at_processes(stage);
    press(state, stage.scene, Key{KeyCode::f9});
    ASSERT_TRUE(std::holds_alternative<SignalPrompt>(state.prompt));
    press(state, stage.scene, answer);
    EXPECT_TRUE(state.requests.empty()) << answer;
    EXPECT_FALSE(state.done) << "the answer is no key of its own";
  }
  ViewState state = at_processes(stage);
  press(state, stage.scene, Key{KeyCode::f9});
  press(state, stage.scene, 'y');
  ASSERT_EQ(state.requests.size(), 1U);
  const auto& sent = std::get<SendSignals>(state.requests[0]);
  EXPECT_EQ(sent.signal, 15);
  ASSERT_EQ(sent.targets.size(), 1U);
  EXPECT_EQ(sent.targets[0].pid, Pid{1000});
}

TEST(Keys, DigitsPickTheSignal) {
  const Stage stage(8, 1);
  ViewState state = at_processes(stage);
  press(state, stage.scene, 'T');
  press(state, stage.scene, '1');
  press(state, stage.scene, '0');
  EXPECT_EQ(std::get<SignalPrompt>(state.prompt).signal, 10);
  press(state, stage.scene, '9');
  EXPECT_EQ(std::get<SignalPrompt>(state.prompt).signal, 9) << "there is no signal 109";
  EXPECT_THAT(draw(state, stage.scene, {80, 24}).row(23), HasSubstr("Send SIGKILL (9) to process 1000 (ann: python"));
  press(state, stage.scene, 'y');
  EXPECT_EQ(std::get<SendSignals>(state.requests.at(0)).signal, 9);
}

TEST(Keys, TaggedProcessesGetTheSignalEachOnce) {
  facts::Snapshot snapshot = testing::working_fleet(4, 0);
  snapshot.gpus[1].processes->push_back(testing::process(1000, "ann", "python train.py", 1_GiB));
  Stage stage(4, 1);
  stage.show(snapshot);
  ViewState state = at_processes(stage);
  type(state, stage.scene, "   ");
  EXPECT_EQ(state.tagged.size(), 3U);
  press(state, stage.scene, 'K');
  const auto& prompt = std::get<SignalPrompt>(state.prompt);
  EXPECT_EQ(prompt.signal, 9);
  EXPECT_EQ(prompt.targets.size(), 2U) << "one of them is on two GPUs";
  press(state, stage.scene, 'n');
  press(state, stage.scene, 'U');
  EXPECT_TRUE(state.tagged.empty());
}

TEST(Keys, NoSignalsToThePastToCapturesOrToOtherNodes) {
  Stage stage(2, 1);
  ViewState state = at_processes(stage);
  stage.scene.captured = true;
  press(state, stage.scene, 'T');
  EXPECT_THAT(state.message, HasSubstr("capture"));
  stage.scene.captured = false;
  stage.scene.behind = std::chrono::seconds(3);
  press(state, stage.scene, 'T');
  EXPECT_THAT(state.message, HasSubstr("paused"));
  stage.scene.behind.reset();
  stage.scene.nodes[0].url = "http://n1:1";
  press(state, stage.scene, 'T');
  EXPECT_THAT(state.message, HasSubstr("other nodes"));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state.prompt));
}

TEST(Keys, AFilterIsTypedAndItsErrorsStandAboveIt) {
  const Stage stage(8, 1);
  ViewState state;
  press(state, stage.scene, '/');
  type(state, stage.scene, "tempp > 20");
  press(state, stage.scene, Key{KeyCode::enter});
  const auto* prompt = std::get_if<FilterPrompt>(&state.prompt);
  ASSERT_NE(prompt, nullptr) << "it stays open for mending";
  EXPECT_FALSE(prompt->error.empty());
  EXPECT_THAT(draw(state, stage.scene, {100, 24}).row(22), HasSubstr("tempp"));
  press(state, stage.scene, Key{control('U')});
  type(state, stage.scene, "user == ann");
  press(state, stage.scene, Key{KeyCode::backspace});
  type(state, stage.scene, "n");
  press(state, stage.scene, Key{KeyCode::enter});
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state.prompt));
  EXPECT_EQ(state.filter_text, "user == ann");
  EXPECT_THAT(draw(state, stage.scene, {100, 24}).row(0), HasSubstr("filter: user == ann"));
  press(state, stage.scene, Key{KeyCode::escape});
  EXPECT_FALSE(state.filter.has_value());
}

TEST(Keys, SortLettersAreThoseOfNvitopAndCapitalsInvert) {
  const Stage stage(8, 1);
  ViewState state;
  type(state, stage.scene, "og");
  EXPECT_EQ(state.sort, SortBy::memory);
  EXPECT_TRUE(state.descending);
  type(state, stage.scene, "oU");
  EXPECT_EQ(state.sort, SortBy::user);
  EXPECT_TRUE(state.descending);
  press(state, stage.scene, '+');
  EXPECT_FALSE(state.descending);
  type(state, stage.scene, ".");
  EXPECT_EQ(state.sort, SortBy::sm);
  type(state, stage.scene, ",,");
  EXPECT_EQ(state.sort, SortBy::pid);
  type(state, stage.scene, "o?");
  EXPECT_EQ(state.sort, SortBy::pid);
  EXPECT_EQ(state.page, Page::overview) << "the letter belonged to the question";
}

TEST(Keys, ASelectionStaysOnItsProcessWhenTheOrderChanges) {
  const Stage stage(8, 1);
  ViewState state = at_processes(stage);
  press(state, stage.scene, 'j');
  ASSERT_EQ(state.process->pid, Pid{1002});
  type(state, stage.scene, "oP");
  EXPECT_EQ(state.process->pid, Pid{1002});
}

TEST(Keys, PauseAndStepsGoThroughHistory) {
  Stage stage(1, 10);
  ViewState state;
  press(state, stage.scene, '[');
  EXPECT_EQ(state.held_at, 8);
  stage.scene.slot = 8;
  press(state, stage.scene, '{');
  EXPECT_EQ(state.held_at, 0) << "no further than there is";
  stage.scene.slot = 0;
  press(state, stage.scene, ']');
  EXPECT_EQ(state.held_at, 1);
  stage.scene.slot = 1;
  press(state, stage.scene, '}');
  EXPECT_FALSE(state.held_at.has_value()) << "the newest is live";
  stage.scene.slot = 9;
  press(state, stage.scene, 'p');
  EXPECT_EQ(state.held_at, 9);
  press(state, stage.scene, 'p');
  EXPECT_FALSE(state.held_at.has_value());
}

TEST(Keys, TheMouseSelectsRowsAndItsWheelScrolls) {
  const Stage stage(64, 1);
  ViewState state;
  press(state, stage.scene, Key{KeyCode::click, {5, 6}});
  EXPECT_TRUE(state.gpu.ends_with("GPU-2000-test")) << state.gpu;
  for (int i = 0; i < 20; ++i) press(state, stage.scene, Key{KeyCode::wheel_down, {5, 6}});
  EXPECT_TRUE(state.gpu.ends_with("GPU-16000-test")) << state.gpu;
  EXPECT_GT(state.first_gpu, 0U);
  press(state, stage.scene, Key{KeyCode::click, {5, 18}});
  EXPECT_EQ(state.focus, Focus::processes);
  press(state, stage.scene, Key{KeyCode::click, {5, 0}});
  EXPECT_EQ(state.focus, Focus::processes) << "the head is no row";
  press(state, stage.scene, 'm');
  EXPECT_FALSE(std::get<SetMouse>(state.requests.at(0)).on);
}

TEST(Keys, PagesOpenAndEscLeavesThem) {
  const Stage stage(8, 1);
  ViewState state;
  press(state, stage.scene, Key{KeyCode::enter});
  EXPECT_EQ(state.page, Page::detail);
  press(state, stage.scene, Key{KeyCode::right});
  EXPECT_TRUE(state.gpu.ends_with("GPU-1000-test"));
  press(state, stage.scene, Key{KeyCode::escape});
  EXPECT_EQ(state.page, Page::overview);
  press(state, stage.scene, '?');
  EXPECT_EQ(state.page, Page::help);
  press(state, stage.scene, 'h');
  press(state, stage.scene, 'A');
  EXPECT_EQ(state.page, Page::alerts);
  EXPECT_FALSE(state.done);
  press(state, stage.scene, 'q');
  EXPECT_TRUE(state.done);
}

TEST(Keys, EnterAcknowledgesTheSelectedAlert) {
  Stage stage(2, 1);
  telemetry::Alert alert;
  alert.id = 42;
  stage.scene.nodes[0].alerts = {alert};
  ViewState state;
  type(state, stage.scene, "A\n");
  ASSERT_EQ(state.requests.size(), 1U);
  EXPECT_EQ(std::get<Acknowledge>(state.requests[0]).alert, 42U);
  EXPECT_EQ(std::get<Acknowledge>(state.requests[0]).node, "n1");
}

TEST(Keys, AnyKeysInAnyOrderLeaveAStateThatCanBeDrawn) {
  std::uint32_t seed = 7;
  const auto next = [&seed](std::uint32_t below) { return (seed = seed * 1664525 + 1013904223) / 65536 % below; };
  for (const std::uint32_t gpus : {0U, 1U, 16U}) {
    const Stage stage(gpus, 5);
    ViewState state;
    for (int i = 0; i < 3000; ++i) {
      Key key{static_cast<KeyCode>(next(128)), {static_cast<int>(next(90)), static_cast<int>(next(30))}};
      if (next(4) == 0) key.code = static_cast<KeyCode>(static_cast<char32_t>(KeyCode::up) + next(26));
      const Extent extent{static_cast<int>(1 + next(120)), static_cast<int>(1 + next(40))};
      press(state, stage.scene, key, extent);
      state.requests.clear();
      ASSERT_EQ(draw(state, stage.scene, extent).extent(), extent);
    }
  }
}

}  // namespace
}  // namespace gpuwarden::view
