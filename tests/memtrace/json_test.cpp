// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/script.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::memtrace {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

constexpr std::string_view kTrace =
    "op,id,size,stream,time_us,phase\na,1,3000000,0,0,rec\na,2,1000000,0,0,rec\nf,1,0,0,0,rec\na,3,2000000,0,0,rec\n";

ReplayReport report_of(const Trace& trace, Bytes device) {
  ReplayReport report{.file = "x.csv", .trace = trace, .device_memory = device, .steps = {0, 0}, .replays = {}};
  const Script script = make_script(trace, report.steps);
  for (const memory::Strategy& strategy : memory::strategies())
    report.replays.push_back(
        *replay(script, {.strategy = &strategy, .device_memory = device, .timed_ms = 0, .samples = 4}));
  return report;
}

TEST(ReplayJson, HasTheFiguresOfEveryStrategyAndOfTheFirstOnTop) {
  const Trace trace = *read_trace(std::string(kTrace), "x.csv");
  const ReplayReport report = report_of(trace, 1_GiB);
  const Json json = Json::parse(to_json(report).dump());
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["device_memory_bytes"], (1_GiB).value);
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["trace"]["file"], "x.csv");
  EXPECT_EQ(json["trace"]["events"], trace.events.size());
  EXPECT_EQ(json["trace"]["recorded"], nullptr);
  ASSERT_THAT(json["strategies"], SizeIs(report.replays.size()));
  for (std::size_t i = 0; i < report.replays.size(); ++i) {
    const Replay& replay = report.replays[i];
    EXPECT_EQ(json["strategies"][i]["strategy"], replay.strategy);
    EXPECT_EQ(json["strategies"][i]["peak_live_bytes"], replay.peak_live.value);
    EXPECT_EQ(json["strategies"][i]["peak_reserved_bytes"], replay.peak_reserved.value);
    EXPECT_EQ(json["strategies"][i]["driver_calls"], replay.driver_calls);
    EXPECT_EQ(json["strategies"][i]["out_of_memory"], nullptr);
    EXPECT_THAT(json["strategies"][i]["samples"], SizeIs(replay.samples.size()));
  }
  EXPECT_EQ(json["strategy"], report.replays[0].strategy);
}

TEST(ReplayJson, RunningOutOfMemoryNamesTheOperationFromOneOn) {
  const Trace trace = *read_trace("op,id,size,stream,time_us,phase\na,1,90000000,0,0,rec\na,2,90000000,0,0,rec\n", "x");
  const ReplayReport report = report_of(trace, 128_MiB);
  const Json json = to_json(report);
  ASSERT_TRUE(report.replays[0].failure);
  EXPECT_EQ(json["out_of_memory"]["operation"], report.replays[0].failure->operation + 1);
  EXPECT_EQ(json["out_of_memory"]["requested_bytes"], 90000000);
  EXPECT_EQ(json["out_of_memory"]["message"], report.replays[0].failure->error.message);
}

TEST(TraceSummary, CountsWhatWasAllocatedAndWhatIsLeft) {
  const testing::TempDir dir;
  const auto file = dir / "trace.csv";
  ASSERT_TRUE(write_file_atomically(file, std::string(kTrace)));
  const TraceSummary summary = summarize(file);
  EXPECT_EQ(summary.problem, "");
  EXPECT_EQ(summary.allocations, 3U);
  EXPECT_EQ(summary.frees, 1U);
  EXPECT_EQ(summary.peak, Bytes(4000000));
  EXPECT_EQ(summary.at_end, Bytes(3000000));
}

TEST(TraceSummary, AFileThatIsNoTraceSaysWhy) {
  const testing::TempDir dir;
  const auto file = dir / "trace.csv";
  ASSERT_TRUE(write_file_atomically(file, "nothing of the kind"));
  const TraceSummary summary = summarize(file);
  EXPECT_NE(summary.problem, "");
  const Json json = to_json({summary, summarize(*read_trace(std::string(kTrace), "x"), "b.csv")}, 3, false);
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["traces"][0]["problem"], summary.problem);
  EXPECT_EQ(json["traces"][1]["problem"], nullptr);
  EXPECT_EQ(json["traces"][1]["file"], "b.csv");
  EXPECT_EQ(json["traces"][1]["live_at_end_bytes"], 3000000);
}

}  // namespace
}  // namespace gpuwarden::memtrace
