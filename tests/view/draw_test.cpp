// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/draw.hpp"

#include <set>

#include "gpuwarden/base/text.hpp"
#include "view/scenes.hpp"

namespace gpuwarden::view {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Stage;

std::string drawn(const ViewState& given, const Scene& scene, Extent extent) {
  ViewState state = given;
  settle(state, scene, extent);
  return draw(state, scene, extent).text();
}

/// The frame's lines without the last, which lists keys.
std::string drawn_body(const ViewState& state, const Scene& scene, Extent extent) {
  std::string text = drawn(state, scene, extent);
  text.pop_back();
  return text.substr(0, text.rfind('\n') + 1);
}

TEST(Draw, GpusThatDoNotFitAsCardsHaveALineEach) {
  const Stage stage(2, 1);
  EXPECT_EQ(drawn_body({}, stage.scene, {80, 10}),
            "n1  driver 550.54.15  CUDA 12.4                                         22:13:20\n"
            "2 GPUs  1 in use  load 25%  memory 40.0/160G  power 375/700W\n"
            "GPU NAME           LOAD         MEMORY            TEMP    POWER  MHz STATE\n"
            "  0 H100 80GB HBM3 ████···· 50% ███··· 40.0/80.0G  60° 375/700W 1980 ann\n"
            "  1 H100 80GB HBM3 ········· 0% ······· 0.0/80.0G    -        -      free\n"
            "     PID USER GPU▲ TYPE SM% GPU-MEM COMMAND\n"
            "    1000 ann     0 C      0   40.0G python train.py\n"
            "\n\n");
}

TEST(Draw, OneGpuIsACard) {
  const Stage stage(1);
  ViewState state;
  state.glyphs = Glyphs::ascii;
  EXPECT_EQ(drawn_body(state, stage.scene, {80, 16}),
            "n1  driver 550.54.15  CUDA 12.4                                         22:14:49\n"
            "- 0 H100 80GB HBM3 ------------------------------------------------------- ann -\n"
            " GPU [||||||||||||||||||                54%]  GPU        ...:::::::::::...\n"
            " MEM [|||||||||||||||            43.2/80.0G]        .::|||||||||||||||||||||::.\n"
            " 62C/87C  397/700W  1980 MHz                       |||||||||||||||||||||||||||||\n"
            " PCIe 5x16 rx 1.23G tx 340M  ECC 0/0               |||||||||||||||||||||||||||||\n"
            "\n"
            "                                              mem        ...:::::::::::...\n"
            "                                                    .::|||||||||||||||||||||::.\n"
            "                                                   |||||||||||||||||||||||||||||\n"
            "                                                   |||||||||||||||||||||||||||||\n"
            "     PID USER GPU+ TYPE SM% GPU-MEM COMMAND\n"
            "    1000 ann     0 C      0   43.2G python train.py\n"
            "\n"
            "\n");
}

TEST(Draw, AsciiHasNothingElse) {
  Stage stage(2, 60);
  ViewState state;
  state.glyphs = Glyphs::ascii;
  for (const Page page : {Page::overview, Page::detail, Page::alerts, Page::help}) {
    state.page = page;
    for (const char c : drawn(state, stage.scene, {120, 40})) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << c;
  }
}

TEST(Draw, CardsHaveBarsFiguresAndGraphs) {
  const Stage stage(1);
  const std::string text = drawn({}, stage.scene, {80, 24});
  EXPECT_THAT(text, HasSubstr("0 H100 80GB HBM3 ─"));
  EXPECT_THAT(text, HasSubstr("54%"));
  EXPECT_THAT(text, HasSubstr("43.2/80.0G"));
  EXPECT_THAT(text, HasSubstr("62°/87°  397/700W"));
  EXPECT_THAT(text, HasSubstr("PCIe 5x16 ↓1.23G ↑340M"));
  EXPECT_THAT(text, HasSubstr("⣿⣿⣿"));
  EXPECT_THAT(text, HasSubstr("python train.py"));
}

TEST(Draw, ProcessesAreNeverLost) {
  for (const std::uint32_t gpus : {1U, 2U, 8U, 64U, 128U}) {
    const Stage stage(gpus, 2);
    for (const Shape shape : {Shape::automatic, Shape::cards, Shape::lines}) {
      ViewState state;
      state.shape = shape;
      const std::string text = drawn(state, stage.scene, {80, 24});
      EXPECT_THAT(text, HasSubstr("COMMAND")) << gpus;
      EXPECT_THAT(text, HasSubstr("python train.py")) << gpus;
    }
  }
}

TEST(Draw, FourDigitWattsTerabytesAndHundredsOfGpusKeepTheColumns) {
  facts::Snapshot snapshot = testing::working_fleet(128, 0);
  for (facts::GpuRecord& record : snapshot.gpus) {
    record.sample.power = 1'400_W;
    record.sample.power_limit = 1'400_W;
    record.sample.memory_total = 1536_GiB;
    record.sample.memory_used = 1024_GiB;
    record.sample.temperature = Celsius(105);
  }
  Stage stage(1, 1);
  stage.show(snapshot);
  for (const int width : {80, 100, 132, 200}) {
    ViewState state;
    state.gpu = "n1/" + snapshot.gpus[127].gpu.uuid.value;
    Extent extent{width, 30};
    settle(state, stage.scene, extent);
    const Canvas canvas = draw(state, stage.scene, extent);
    // Heads of columns that are flush right end where their figures end.
    int head_row = 2;
    while (head_row < extent.height && !canvas.row(head_row).starts_with("GPU")) ++head_row;
    const std::string head = canvas.row(head_row);
    for (int y = head_row + 1; y < head_row + 6; ++y) {
      EXPECT_THAT(canvas.row(y), HasSubstr("1.00/1.50T")) << width;
      EXPECT_THAT(canvas.row(y), HasSubstr(" 105° 1400/1400W ")) << width;
      EXPECT_EQ(canvas.row(y).substr(0, 1), "1") << width;
    }
    EXPECT_THAT(head, HasSubstr("TEMP      POWER")) << width;
  }
}

TEST(Draw, WhatIsNotKnownIsNotZero) {
  facts::Snapshot snapshot = testing::fleet(1);
  snapshot.gpus[0].sample = {};
  snapshot.gpus[0].processes.reset();
  snapshot.gpus[0].gpu.mig_enabled = true;
  Stage stage(1, 0);
  stage.show(snapshot);
  const std::string text = drawn({}, stage.scene, {80, 24});
  EXPECT_THAT(text, HasSubstr("n/a (MIG)"));
  EXPECT_THAT(text, Not(HasSubstr("0%")));
  EXPECT_THAT(text, HasSubstr("not every GPU tells of its own"));
}

TEST(Draw, TroubleStandsBesideItsGpu) {
  facts::Snapshot snapshot = testing::working_fleet(8, 0);
  snapshot.gpus[3].state = facts::GpuState::lost;
  snapshot.gpus[3].cause = "fell off the bus";
  Stage stage(8, 1);
  stage.show(snapshot);
  ViewState state;
  state.gpu = "n1/" + snapshot.gpus[3].gpu.uuid.value;
  EXPECT_THAT(drawn({}, stage.scene, {80, 24}), HasSubstr("lost: fell"));
  EXPECT_THAT(drawn({}, stage.scene, {80, 24}), HasSubstr("1 in trouble"));
  state.page = Page::detail;
  EXPECT_THAT(drawn(state, stage.scene, {80, 24}), HasSubstr("lost: fell off the bus"));
}

TEST(Draw, ASilentDriverIsStaleAndNotFrozen) {
  Stage stage(1, 1);
  stage.scene.now = testing::at_second(12);
  EXPECT_THAT(drawn({}, stage.scene, {80, 24}), HasSubstr("stale 12 s"));
}

/// A node that answered once, two seconds after the stage's.
cluster::Node lost_node(bool has_reading) {
  facts::Snapshot snapshot = testing::working_fleet(2, 2);
  snapshot.host = "n2";
  snapshot.simulated = true;
  cluster::Node node = testing::node_with(snapshot);
  node.url = "http://n2:1";
  node.problem = Error{ErrorCode::timed_out, "timed out after 2 s", ""};
  if (!has_reading) node.reading = nullptr;
  return node;
}

TEST(Draw, ANodeThatIsLostSaysWhyAndCountsForNothing) {
  Stage stage(2, 1);
  stage.scene.nodes.push_back(lost_node(true));
  const std::string text = drawn({}, stage.scene, {120, 24});
  EXPECT_THAT(text, HasSubstr("1 SIMULATED  2 nodes  1 not answering"));
  EXPECT_THAT(text, HasSubstr("22:13:22\n")) << "the newest reading's time";
  EXPECT_THAT(text, HasSubstr("4 GPUs  2 in trouble  1 in use  load 25%  memory 40.0/160G")) << "what n2 did is past";
  EXPECT_THAT(text, HasSubstr("n2:1"));
  EXPECT_THAT(text, HasSubstr("lost: timed"));
}

TEST(Draw, ANodeThatNeverAnsweredHasALineWithoutGpus) {
  Stage stage(2, 1);
  stage.scene.nodes.push_back(lost_node(false));
  const std::string text = drawn({}, stage.scene, {120, 24});
  EXPECT_THAT(text, HasSubstr("2 GPUs  1 in use"));
  EXPECT_THAT(text, HasSubstr("  n2 lost: timed out after 2 s")) << "the reason stands where figures would";
  stage.scene.nodes = {lost_node(false)};
  EXPECT_THAT(drawn({}, stage.scene, {80, 24}), HasSubstr("n2  not answering"));
}

TEST(Draw, AlertsAreListedWorstFirstWithTheirNextStep) {
  Stage stage(2, 1);
  telemetry::Alert warm;
  warm.rule = "warm";
  warm.message = "GPU 0 is warm";
  warm.since = testing::at_second(-60);
  telemetry::Alert bad = warm;
  bad.level = telemetry::AlertLevel::critical;
  bad.message = "GPU 1 has failed";
  bad.next_step = "reset it";
  stage.scene.nodes[0].alerts = {warm, bad};
  ViewState state;
  EXPECT_THAT(drawn(state, stage.scene, {80, 24}), HasSubstr("! 2 alerts"));
  state.page = Page::alerts;
  const std::string text = drawn(state, stage.scene, {80, 24});
  EXPECT_LT(text.find("GPU 1 has failed"), text.find("GPU 0 is warm"));
  EXPECT_THAT(text, HasSubstr("→ reset it"));
}

TEST(Draw, TheHelpHasEveryKeyOfTheTable) {
  const Stage stage(1, 1);
  ViewState state;
  state.page = Page::help;
  const std::string text = drawn(state, stage.scene, {100, 60});
  for (const KeyRow& row : key_rows()) EXPECT_THAT(text, HasSubstr(std::string(row.help)));
}

TEST(Draw, NothingOfTheHelpIsCutOffInASmallTerminal) {
  const Stage stage(1, 1);
  constexpr Extent kSmall{80, 24};
  ViewState state;
  state.page = Page::help;
  EXPECT_THAT(drawn(state, stage.scene, kSmall), HasSubstr("more lines: PgDn"));
  // Whatever a page shows, read line by line as one scrolls.
  std::set<std::string> words;
  for (int i = 0; i < 60; ++i) {
    settle(state, stage.scene, kSmall);
    const std::string page = drawn(state, stage.scene, kSmall);
    EXPECT_THAT(page, Not(HasSubstr("…")));
    for (const auto word : split_words(page)) words.emplace(word);
    apply({KeyCode::down}, state, stage.scene, kSmall);
  }
  for (const KeyRow& row : key_rows()) {
    for (const auto word : split_words(row.help)) EXPECT_TRUE(words.contains(std::string(word))) << word;
  }
  EXPECT_THAT(drawn(state, stage.scene, kSmall), Not(HasSubstr("more lines: PgDn"))) << "at the end";
}

TEST(Draw, AGpuThatIsDisabledIsNotFreeAndWhereLeasesAreUnknownNoneIs) {
  Stage stage(2, 1);
  stage.show(testing::fleet(2));
  cluster::Node& node = stage.scene.nodes[0];
  stage.scene.captured = true;
  facts::Health health;
  health.uuid = node.reading->snapshot.gpus[0].gpu.uuid;
  health.state = facts::HealthState::disabled;
  health.reason = "disabled by root: fan is loud";
  node.health = {health};
  std::string text = drawn({}, stage.scene, {120, 30});
  EXPECT_THAT(text, HasSubstr("disabled by root: fan is loud"));
  EXPECT_THAT(text, HasSubstr("free")) << "the other one";
  node.leases_problem = Error{ErrorCode::permission_denied, "cannot read", ""};
  text = drawn({}, stage.scene, {120, 30});
  EXPECT_THAT(text, HasSubstr("leases unknown"));
  EXPECT_THAT(text, Not(HasSubstr("free ")));
}

TEST(Draw, ATerminalThatIsTooSmallSaysSo) {
  const Stage stage(1, 1);
  EXPECT_EQ(drawn({}, stage.scene, {30, 4}), "too small (20x5 needed)\n\n\n\n");
  EXPECT_EQ(drawn({}, stage.scene, {1, 1}), "…\n");
  EXPECT_EQ(drawn({}, stage.scene, {0, 0}), "");
}

/// Draws a page at a size, first as it is given, then in order.
void draw_at(const Scene& scene, Page page, Extent extent) {
  ViewState state;
  state.page = page;
  state.glyphs = static_cast<Glyphs>((extent.width + extent.height) % 3);
  state.shape = static_cast<Shape>(extent.width % 3);
  state.focus = extent.height % 2 == 0 ? Focus::gpus : Focus::processes;
  state.first_gpu = state.first_process = state.first_line = 40;
  ASSERT_EQ(draw(state, scene, extent).extent(), extent);
  settle(state, scene, extent);
  const Canvas canvas = draw(state, scene, extent);
  ASSERT_EQ(canvas.extent(), extent);
  for (int y = 0; y < extent.height; ++y) ASSERT_LE(display_width(canvas.row(y)), extent.width);
}

TEST(Draw, AnySizeAnyNumberOfGpusAnyPage) {
  constexpr auto kWidths =
      std::to_array({1, 2, 7, 19, 20, 21, 33, 40, 55, 64, 79, 80, 81, 100, 132, 151, 152, 160, 184, 200});
  constexpr auto kHeights = std::to_array({1, 2, 4, 5, 6, 7, 9, 12, 17, 24, 39, 50, 60});
  for (const std::uint32_t gpus : {0U, 1U, 8U, 64U}) {
    const Stage stage(gpus, 3);
    for (const Page page : {Page::overview, Page::detail, Page::alerts, Page::help}) {
      for (const int width : kWidths) {
        for (const int height : kHeights) ASSERT_NO_FATAL_FAILURE(draw_at(stage.scene, page, {width, height}));
      }
    }
  }
}

TEST(Draw, GpusBeyondSightAreAHeatMapWithTroubleInIt) {
  facts::Snapshot snapshot = testing::working_fleet(64, 0);
  snapshot.gpus[5].state = facts::GpuState::lost;
  snapshot.gpus[9].sample.utilization_gpu.reset();
  snapshot.gpus[2].sample.utilization_gpu = Percent(100);
  Stage stage(1, 1);
  stage.show(snapshot);
  ViewState state;
  settle(state, stage.scene, {80, 24});
  const Canvas canvas = draw(state, stage.scene, {80, 24});
  EXPECT_EQ(canvas.at({5, 2}).glyph, U'×');
  EXPECT_EQ(canvas.at({5, 2}).tone, Tone::fault);
  EXPECT_EQ(canvas.at({9, 2}).glyph, U'?') << "unknown is not idle";
  EXPECT_EQ(canvas.at({2, 2}).glyph, U'█');
  EXPECT_EQ(canvas.at({3, 2}).glyph, U'·');
  EXPECT_TRUE(canvas.at({0, 2}).inverse) << "the selected GPU";
  EXPECT_FALSE(canvas.at({1, 2}).inverse);
  EXPECT_THAT(draw(state, stage.scene, {160, 24}).row(2), HasSubstr("a GPU each"));
  state.glyphs = Glyphs::ascii;
  EXPECT_EQ(draw(state, stage.scene, {80, 24}).at({5, 2}).glyph, U'X');
  EXPECT_THAT(draw(state, stage.scene, {80, 130}).row(2), HasSubstr("GPU NAME"))
      << "where all are in sight there is none";
}

TEST(Draw, AGpuThatWorksForNobodyWhoIsListedIsNotFree) {
  facts::Snapshot snapshot = testing::working_fleet(1, 0);
  snapshot.gpus[0].sample.utilization_gpu = Percent(97);
  snapshot.gpus[0].processes->clear();
  Stage stage(1, 1);
  stage.show(snapshot);
  const std::string text = draw({}, stage.scene, {80, 24}).text();
  EXPECT_THAT(text, HasSubstr("in use"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("free")));
}

TEST(Draw, AThousandGpusTakeAFewRowsAndLeaveRoomForTheLists) {
  facts::Snapshot snapshot = testing::working_fleet(1000, 0);
  snapshot.gpus[999].state = facts::GpuState::lost;
  Stage stage(1, 1);
  stage.show(snapshot);
  ViewState state;
  settle(state, stage.scene, {80, 24});
  const Canvas canvas = draw(state, stage.scene, {80, 24});
  EXPECT_EQ(canvas.at({9, 5}).glyph, U'×') << "four GPUs to a cell: the 250th, and its trouble is not lost in a mean";
  EXPECT_EQ(canvas.at({10, 5}).glyph, U' ');
  EXPECT_THAT(canvas.row(6), HasSubstr("GPU NAME"));
  EXPECT_THAT(canvas.text(), HasSubstr("python train.py"));
  testing::press(state, stage.scene, Key{KeyCode::click, {9, 5}});
  EXPECT_TRUE(state.gpu.ends_with("GPU-3e4000-test")) << state.gpu;
  EXPECT_THAT(draw(state, stage.scene, {80, 24}).text(), HasSubstr("996")) << "a click brings its line into sight";
  settle(state, stage.scene, {160, 50});
  EXPECT_EQ(draw(state, stage.scene, {160, 50}).at({39, 8}).glyph, U'×') << "one each where there is room";
}

pools::PublishedPool pool_of(Pid process, const Uuid& gpu, Bytes live, Bytes reserved, Bytes peak) {
  pools::PublishedPool pool;
  pool.process.pid = process;
  pool.gpu = gpu;
  pool.live = live;
  pool.reserved = reserved;
  pool.peak_reserved = peak;
  return pool;
}

TEST(Draw, ProcessesThatPublishTheirPoolsShowAllocatedReservedAndPeak) {
  Stage stage(4, 1);
  const Extent wide{140, 40};
  EXPECT_THAT(draw({}, stage.scene, wide).text(), Not(HasSubstr("RESERVED"))) << "nobody tells of a pool";
  const auto& gpus = stage.scene.nodes.at(0).reading->snapshot.gpus;
  HostProcess& process = stage.scene.host[Pid{1000}];
  process.pools = {pool_of(Pid{1000}, gpus[0].gpu.uuid, 3_GiB, 5_GiB, 8_GiB),
                   pool_of(Pid{1000}, gpus[0].gpu.uuid, 1_GiB, 2_GiB, 3_GiB),
                   pool_of(Pid{1000}, gpus[2].gpu.uuid, 40_GiB, 50_GiB, 60_GiB)};
  ViewState state;
  const std::string text = draw(state, stage.scene, wide).text();
  EXPECT_THAT(text, ContainsRegex("GPU-MEM +ALLOC +RESERVED +PEAK"));
  EXPECT_THAT(text, ContainsRegex("1000 ann .* 4\\.00G +7\\.00G +11\\.0G")) << "those on its GPU, summed";
  EXPECT_THAT(text, ContainsRegex("1002 bob .* - +- +-")) << "another process tells nothing";
  EXPECT_THAT(draw(state, stage.scene, {80, 40}).text(), Not(HasSubstr("RESERVED"))) << "the first to give way";
  state.sort = SortBy::memory;
  EXPECT_THAT(draw(state, stage.scene, wide).text(), ContainsRegex("GPU-MEM[^ ]+ +ALLOC +RESERVED +PEAK"));
}

TEST(Draw, OnlyProcessesWithinSightAreWorthLookingUp) {
  const Stage stage(64, 1);
  ViewState state;
  const auto few = processes_in_sight(state, stage.scene, {80, 24});
  EXPECT_EQ(few.size(), 5U);
  state.sort = SortBy::cpu;
  EXPECT_EQ(processes_in_sight(state, stage.scene, {80, 24}).size(), 32U) << "sorting by it needs all";
  state.page = Page::help;
  EXPECT_TRUE(processes_in_sight(state, stage.scene, {80, 24}).empty());
}

}  // namespace
}  // namespace gpuwarden::view
