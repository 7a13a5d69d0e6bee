// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/waste.hpp"

#include <algorithm>
#include <set>

#include "gpuwarden/recording/summary.hpp"
#include "gpuwarden/recording/words.hpp"
#include "recording/recordings.hpp"

namespace gpuwarden::recording {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::Fill;
using gpuwarden::testing::record;
using gpuwarden::testing::set_load;
using ::testing::HasSubstr;

/// Ten minutes of this many GPUs that are reserved.
Summary held(std::uint32_t gpus, const Fill& fill) {
  auto recording = record(gpus, 61, 10s, fill);
  recording.held = true;
  return summarize(recording);
}

std::vector<std::string> ids(const Summary& summary) {
  std::vector<std::string> result;
  for (const Waste& waste : summary.waste) result.push_back(waste.id);
  return result;
}

const Waste* find(const Summary& summary, std::string_view id) {
  const auto found = std::ranges::find(summary.waste, id, &Waste::id);
  return found == summary.waste.end() ? nullptr : &*found;
}

void work(facts::Snapshot& snapshot) {
  for (facts::GpuRecord& record : snapshot.gpus) {
    set_load(record, 90, 60_GiB);
    record.sample.clock_sm = Megahertz(1900);
  }
}

/// Makes one check speak, and no other.
struct Case {
  const char* id;
  std::uint32_t gpus;
  Fill fill;
  const char* says;
};

std::vector<Case> cases() {
  return {
      {"unused_gpus", 8, [](facts::Snapshot& snapshot, int) { set_load(snapshot.gpus[0], 90, 60_GiB); },
       "8 GPUs held, 1 used: GPUs 1-7 did nothing"},
      {"idle_time", 2,
       [](facts::Snapshot& snapshot, int i) {
         work(snapshot);
         if (i >= 10 && i < 40) set_load(snapshot.gpus[1], 0, 60_GiB);
       },
       "GPU 1 for 5 min at a stretch from 12:01:40 UTC"},
      {"low_utilization", 2,
       [](facts::Snapshot& snapshot, int) {
         work(snapshot);
         set_load(snapshot.gpus[0], 12, 60_GiB);
       },
       "GPU 0 worked at most 12 % of the time"},
      {"throttled", 2,
       [](facts::Snapshot& snapshot, int i) {
         work(snapshot);
         if (i < 20) snapshot.gpus[1].sample.throttle_reasons = {facts::ThrottleReason::hw_thermal_slowdown};
       },
       "GPU 1 was slowed down by the hardware for heat for 33 % of the time"},
      {"slow_gpu", 4,
       [](facts::Snapshot& snapshot, int) {
         work(snapshot);
         snapshot.gpus[2].sample.clock_sm = Megahertz(1200);
       },
       "GPU 2 ran at 1200 MHz on average, the others at 1900 MHz"},
      {"untouched_memory", 2,
       [](facts::Snapshot& snapshot, int) {
         work(snapshot);
         set_load(snapshot.gpus[0], 90, 8_GiB);
       },
       "GPU 0 used at most 8 GiB of 80 GiB of memory"},
      {"gpu_lost", 2,
       [](facts::Snapshot& snapshot, int i) {
         work(snapshot);
         if (i < 30) return;
         snapshot.gpus[1].sample = {};
         snapshot.gpus[1].state = facts::GpuState::lost;
         snapshot.gpus[1].cause = "it fell off the bus";
       },
       "GPU 1 was lost at 12:05:00 UTC: it fell off the bus"},
      {"gpu_lost", 2,
       [](facts::Snapshot& snapshot, int) {
         work(snapshot);
         snapshot.gpus[1].sample = {};
         snapshot.gpus[1].state = facts::GpuState::needs_reset;
         snapshot.gpus[1].cause = "it needs a reset";
       },
       "GPU 1 could not be used, since before the recording: it needs a reset"},
  };
}

TEST(Waste, EachCheckSpeaksAloneAndSaysWhatToDo) {
  std::set<std::string> seen;
  for (const Case& one : cases()) {
    const auto summary = held(one.gpus, one.fill);
    EXPECT_THAT(ids(summary), ::testing::ElementsAre(one.id));
    const Waste* waste = find(summary, one.id);
    ASSERT_NE(waste, nullptr) << one.id;
    EXPECT_THAT(waste->message, HasSubstr(one.says));
    EXPECT_FALSE(waste->next_step.empty());
    EXPECT_FALSE(waste->gpus.empty());
    seen.insert(one.id);
  }
  for (const WasteCheck& check : waste_checks()) EXPECT_TRUE(seen.contains(std::string(check.id))) << check.id;
}

TEST(Waste, GpusThatWorkWellAreNoFinding) {
  EXPECT_THAT(ids(held(8, [](facts::Snapshot& snapshot, int) { work(snapshot); })), ::testing::IsEmpty());
}

TEST(Waste, WhatIsNotKnownIsNoFinding) {
  const auto summary = held(4, [](facts::Snapshot& snapshot, int) {
    for (auto& gpu : snapshot.gpus) gpu.sample = {};
  });
  EXPECT_THAT(ids(summary), ::testing::IsEmpty());
  const auto one = held(2, [](facts::Snapshot& snapshot, int) {
    work(snapshot);
    set_load(snapshot.gpus[0], 0, 0_B);
    snapshot.gpus[1].sample.utilization_gpu.reset();
  });
  EXPECT_EQ(find(one, "unused_gpus"), nullptr) << "whether the other worked is not known";
}

TEST(Waste, AShortRunIsNotJudged) {
  auto recording = record(8, 2, 1s, [](facts::Snapshot&, int) {});
  recording.held = true;
  EXPECT_EQ(find(summarize(recording), "unused_gpus"), nullptr) << "no more than a moment was seen";
}

TEST(Waste, GpusThatNobodyReservedAreRecordedNotHeld) {
  const auto recording = record(2, 61, 10s, [](facts::Snapshot&, int) {});
  const auto summary = summarize(recording);
  ASSERT_NE(find(summary, "unused_gpus"), nullptr);
  EXPECT_THAT(find(summary, "unused_gpus")->message, HasSubstr("2 GPUs recorded, none used"));
}

TEST(Waste, APowerLimitAtWorkIsANoteBehindWhatIsWorse) {
  const auto summary = held(1, [](facts::Snapshot& snapshot, int) {
    work(snapshot);
    snapshot.gpus[0].sample.throttle_reasons = {facts::ThrottleReason::sw_power_cap,
                                                facts::ThrottleReason::sw_thermal_slowdown};
  });
  ASSERT_EQ(summary.waste.size(), 2U);
  EXPECT_EQ(summary.waste[0].level, telemetry::AlertLevel::warning);
  EXPECT_EQ(summary.waste[1].level, telemetry::AlertLevel::info);
}

TEST(Words, FiguresReadAsPeopleWriteThem) {
  EXPECT_EQ(quantity_text(54.4, "%"), "54 %");
  EXPECT_EQ(quantity_text(3.25, "%"), "3.2 %");
  EXPECT_EQ(quantity_text(64424509440.0, "B"), "60 GiB");
  EXPECT_EQ(quantity_text(std::optional<double>(), "W"), "-");
  EXPECT_EQ(energy_text(850, false), "850 J");
  EXPECT_EQ(energy_text(3600.0 * 50, true), "~50.00 Wh");
  EXPECT_EQ(energy_text(3600.0 * 12'300, false), "12.3 kWh");
  EXPECT_EQ(share_text(0.004), "0.4 %");
  EXPECT_EQ(share_text(std::nullopt), "-");
  const std::vector<GpuIndex> gpus{{0}, {1}, {2}, {3}, {5}};
  EXPECT_EQ(gpus_text(gpus), "GPUs 0-3 and 5");
  const std::vector<GpuIndex> two{{4}, {5}};
  EXPECT_EQ(gpus_text(two), "GPUs 4 and 5");
}

TEST(Words, AMomentHasItsDayWhereThereIsMoreThanOne) {
  const auto noon = gpuwarden::testing::noon();
  EXPECT_EQ(moment_text(noon, {noon - 1h, noon + 1h}), "12:00:00 UTC");
  EXPECT_EQ(moment_text(noon, {noon - 20h, noon + 1h}), "2026-11-20 12:00:00 UTC");
}

TEST(Words, AnUnfinishedRecordingSaysSo) {
  Summary summary;
  summary.info.finished = false;
  ASSERT_EQ(caveats_of(summary).size(), 1U);
  EXPECT_THAT(caveats_of(summary)[0], HasSubstr("not ended in order"));
}

}  // namespace
}  // namespace gpuwarden::recording
