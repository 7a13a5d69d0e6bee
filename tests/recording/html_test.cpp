// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/html.hpp"

#include <pugixml.hpp>

#include "gpuwarden/base/sha256.hpp"
#include "gpuwarden/recording/compare.hpp"
#include "gpuwarden/recording/markdown.hpp"
#include "recording/html_charts.hpp"
#include "recording/html_parts.hpp"
#include "recording/recordings.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::recording {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::record;
using gpuwarden::testing::set_load;
using ::testing::HasSubstr;
using ::testing::Not;

Told told_of(Recording recording) {
  Told told{.summary = summarize(recording), .readings = {}};
  told.readings = std::move(recording);
  return told;
}

Told hour(std::uint32_t gpus) {
  return told_of(record(gpus, 361, 10s, [](facts::Snapshot& snapshot, int i) {
    for (auto& gpu : snapshot.gpus) {
      const int index = static_cast<int>(gpu.gpu.index.value);
      set_load(gpu, (i * 7 + index * 13) % 101, Bytes(static_cast<std::uint64_t>(20 + (i + index) % 40) << 30U));
    }
  }));
}

/// What stands between two marks, from `at` on.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin);
  if (from == std::string::npos) return "(not found)";
  const auto start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

TEST(Html, ItsPolicyAllowsItsOwnStyleAndScriptByTheirHashesAndNothingElse) {
  // echo -n abc | openssl dgst -sha256 -binary | base64
  EXPECT_EQ(policy_hash("abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
  const std::string page = to_html(hour(2));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("style-src " + policy_hash(between(page, "<style>", "</style>"))));
  EXPECT_THAT(page, HasSubstr("script-src " + policy_hash(between(page, "<script>", "</script>"))));
  for (const char* outside : {"http://", "https://", "src=", "@import", "url(", " style=\"", " onclick"})
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
}

TEST(Html, WhatStrangersWroteStaysText) {
  Told told = hour(2);
  const std::string evil = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m";
  told.summary.info.host = told.summary.info.driver_version = told.summary.run_id = evil;
  told.summary.info.command = {evil};
  told.summary.gpus[0].name = evil;
  told.summary.users = {{.user = evil, .job = evil}};
  told.summary.jobs = told.summary.users;
  told.summary.happenings = {{told.summary.window.from, "xid", told.summary.gpus[0].uuid, evil}};
  told.summary.waste = {{.id = evil, .message = evil, .next_step = evil}};
  for (const std::string& page : {to_html(told), compare_html(told, told)}) {
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, Not(HasSubstr("\x1b")));
    EXPECT_THAT(page, HasSubstr("&lt;img"));
  }
  const std::string markdown = to_markdown(told.summary);
  EXPECT_THAT(markdown, HasSubstr("| 0 | \\</script\\>\\<img src=x onerror=alert(1)\\>"));
}

TEST(Html, EachChartHasAnAccessibleNameAndALineForEachGpu) {
  const std::string page = to_html(hour(3));
  std::size_t charts = 0;
  for (std::size_t at = page.find("<svg class=\"chart"); at != std::string::npos;
       at = page.find("<svg class=\"chart", at + 1)) {
    const std::string svg = page.substr(at, page.find("</svg>", at) + 6 - at);
    pugi::xml_document document;
    ASSERT_TRUE(document.load_string(svg.c_str())) << svg.substr(0, 200);
    EXPECT_GT(std::string(document.first_child().attribute("aria-label").value()).size(), 20U);
    EXPECT_EQ(std::string(document.first_child().attribute("role").value()), "img");
    ++charts;
  }
  EXPECT_EQ(charts, 5U) << "the heat map, utilization, memory, power, temperature";
  EXPECT_THAT(page, HasSubstr("aria-pressed=\"true\">GPU 2</button>"));
  EXPECT_THAT(page, HasSubstr("GPU utilization of 3 lines over 1 h"));
}

TEST(Html, ItsDataIsJsonWithOneValueForEachBin) {
  const Told told = hour(2);
  const ChartSet set = charts_of(*told.readings, told.summary, 100);
  const auto data = nlohmann::json::parse(data_of(set));
  EXPECT_EQ(data["bins"], set.grid.bins);
  EXPECT_LE(set.grid.bins, 100U);
  EXPECT_EQ(data["names"], (std::vector<std::string>{"GPU 0", "GPU 1"}));
  const auto& line = data["charts"]["utilization"]["lines"][0];
  EXPECT_EQ(line["mean"].size(), set.grid.bins);
  EXPECT_EQ(line["min"].size(), set.grid.bins);
  EXPECT_FALSE(data["charts"]["power"]["lines"][0].contains("min")) << "it never changed";
}

TEST(Html, ADayOfEightGpusTakesLessThanTwoMegabytes) {
  if (gpuwarden::testing::kSanitized)
    GTEST_SKIP() << "sizes are the release build's to show, and this takes minutes here";
  const auto day = told_of(record(8, 24 * 360, 10s, [](facts::Snapshot& snapshot, int i) {
    for (auto& gpu : snapshot.gpus) {
      const int index = static_cast<int>(gpu.gpu.index.value);
      set_load(gpu, (i * 31 + index * 17) % 101, Bytes(static_cast<std::uint64_t>((i * 911 + index) % 80'000) << 20U));
      gpu.sample.temperature = Celsius(40 + (i * 7 + index) % 45);
      gpu.sample.power = Milliwatts(100'000 + (i * 7919 + index) % 600'000);
      gpu.sample.clock_sm = Megahertz(1000 + (i * 131 + index) % 980);
    }
  }));
  const std::string page = to_html(day);
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_GT(page.size(), 200'000U) << "nothing much is in it";
  // 64 GPUs get fewer points each.
  EXPECT_LT(to_html(hour(64)).size(), 2'000'000U);
}

TEST(Html, AReportWithoutReadingsHasNoChartsAndSaysWhy) {
  Told told = hour(2);
  told.readings.reset();
  const std::string page = to_html(told);
  EXPECT_THAT(page, Not(HasSubstr("<svg class=\"chart")));
  EXPECT_THAT(page, HasSubstr("no charts"));
}

TEST(Html, AGpuThatWasLostAndXidsAreMarkedInTheCharts) {
  const Told told = told_of(record(2, 60, 10s, [](facts::Snapshot& snapshot, int i) {
    if (i > 30) snapshot.gpus[1].state = facts::GpuState::lost;
    if (i > 30) snapshot.gpus[1].cause = "it fell off the bus";
  }));
  const std::string page = to_html(told);
  EXPECT_THAT(page, HasSubstr("class=\"mark\""));
  EXPECT_THAT(page, HasSubstr("GPU 1 lost: it fell off the bus"));
  EXPECT_THAT(page, HasSubstr("<span class=\"bad\">lost</span>"));
}

TEST(Html, TwoRecordingsAreOverlaidFromTheirBeginnings) {
  const Told a = hour(2);
  Recording later = record(4, 31, 10s, [](facts::Snapshot& snapshot, int) { set_load(snapshot.gpus[0], 90, 1_GiB); });
  const ChartSet set = charts_of_both(*a.readings, later, 200);
  EXPECT_EQ(set.names.size(), 2U);
  ASSERT_FALSE(set.charts.empty());
  const Bins& b = set.charts[0].lines[1];
  EXPECT_TRUE(b.front()) << "both begin at the left";
  EXPECT_FALSE(b.back()) << "the shorter one ends before";
  EXPECT_EQ(b.front()->mean, 22.5) << "one of four GPUs at 90 %";
  EXPECT_EQ(b.front()->max, 90);
  EXPECT_THAT(compare_html(a, told_of(later)), HasSubstr("Mean GPU utilization"));
}

TEST(Compare, TellsDifferencesAndLeavesUnknownUnknown) {
  const auto a =
      summarize(record(2, 61, 10s, [](facts::Snapshot& snapshot, int) { set_load(snapshot.gpus[0], 50, 10_GiB); }));
  auto b =
      summarize(record(2, 121, 10s, [](facts::Snapshot& snapshot, int) { set_load(snapshot.gpus[0], 80, 20_GiB); }));
  const auto figures = compare(a, b);
  const auto of = [&](std::string_view key) { return *std::ranges::find(figures, key, &ComparedFigure::key); };
  EXPECT_EQ(of("duration_seconds").difference(), 600);
  EXPECT_EQ(difference_text(of("duration_seconds")), "+10 min (+100 %)");
  EXPECT_EQ(difference_text(of("mean_utilization_percent")), "+15 points");
  EXPECT_EQ(of("mean_utilization_percent").percent(), std::nullopt) << "a percentage of a percentage misleads";
  EXPECT_EQ(difference_text(of("peak_memory_bytes")), "+10 GiB (+100 %)");
  EXPECT_EQ(difference_text(of("peak_temperature_celsius")), "no change");
  EXPECT_EQ(difference_text(of("mean_clock_sm_megahertz")), "-");
  const auto json = to_json(figures, a, b);
  EXPECT_EQ(json["kind"], "comparison");
  EXPECT_EQ(json["figures"].size(), figures.size());
}

TEST(Markdown, IsATableWhoseCellsCannotBreakIt) {
  auto summary = hour(2).summary;
  summary.gpus[0].name = "H100 | `x` <b>";
  summary.info.command = {"echo", "a`b"};
  const std::string text = to_markdown(summary);
  EXPECT_THAT(text, HasSubstr("| 0 | H100 \\| \\`x\\` \\<b\\> |"));
  EXPECT_THAT(text, HasSubstr("`` echo 'a`b' ``"));
  EXPECT_THAT(compare_markdown(summary, summary), HasSubstr("| Duration | 1 h | 1 h | no change |"));
}

}  // namespace
}  // namespace gpuwarden::recording
