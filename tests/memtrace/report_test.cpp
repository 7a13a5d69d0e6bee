// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/report.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/snapshot.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::memtrace {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;

constexpr std::string_view kTwoDevices =
    "op,id,size,device\na,1,4194304,0\na,2,4194304,1\na,3,1048576,0\nf,1,0,0\nf,3,0,0\n";

TEST(ReplayAll, EachStrategyRunsTheSameTrace) {
  const Trace trace = read_trace(kTwoDevices, "two").value();
  const auto strategies = memory::strategies_named("all");
  ASSERT_THAT(strategies, IsOk());
  const auto report = replay_all("two.csv", trace, {0, 0}, *strategies, 1_GiB);
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->replays.size(), memory::strategies().size());
  for (std::size_t i = 0; i < report->replays.size(); ++i) {
    EXPECT_EQ(report->replays[i].strategy, memory::strategies()[i].name);
    EXPECT_EQ(report->replays[i].peak_requested, 5_MiB);
    EXPECT_GE(report->replays[i].rounds, 5U) << "a short script is timed often";
  }
  const auto recording = record_first(*report);
  ASSERT_THAT(recording, IsOk());
  EXPECT_EQ(recording->steps.size(), 2U);
}

TEST(ReplayAll, NotesSayWhatWasReadAndOnWhatItRan) {
  const Trace trace = read_trace(kTwoDevices, "two").value();
  const auto report = replay_all("two.csv", trace, {0, 0}, *memory::strategies_named("greedy"), 1_GiB);
  ASSERT_THAT(report, IsOk());
  const auto notes = notes_on(*report);
  ASSERT_EQ(notes.size(), 4U);
  EXPECT_THAT(notes[0], HasSubstr("two.csv: "));
  EXPECT_THAT(notes[1], HasSubstr("of device 0; 1 more have events"));
  EXPECT_EQ(notes[2], "2 steps");
  EXPECT_THAT(notes[3], HasSubstr("SIMULATED device of 1 GiB"));
}

TEST(StrategiesNamed, AreOneOrAll) {
  EXPECT_EQ((*memory::strategies_named("steady"))[0], memory::find_strategy("steady"));
  const auto unknown = memory::strategies_named("best");
  ASSERT_THAT(unknown, FailsWith(ErrorCode::invalid_argument, "unknown strategy 'best'"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("all, balanced"));
}

TEST(SnapshotFor, TheEndingOfTheNameChoosesTheFormat) {
  EXPECT_THAT(check_snapshot_name("a.pkl"), IsOk());
  EXPECT_THAT(check_snapshot_name("a.txt"), FailsWith(ErrorCode::invalid_argument, HasSubstr("like 'a.txt'")));
  EXPECT_TRUE(nlohmann::json::accept(snapshot_for("a.json", {})));
  EXPECT_EQ(snapshot_for("a.pickle", {}), snapshot_pickle({}));
}

}  // namespace
}  // namespace gpuwarden::memtrace
