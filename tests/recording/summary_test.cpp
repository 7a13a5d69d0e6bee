// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/summary.hpp"

#include "gpuwarden/recording/words.hpp"
#include "recording/recordings.hpp"

namespace gpuwarden::recording {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::noon;
using gpuwarden::testing::record;
using gpuwarden::testing::set_load;
using ::testing::ElementsAre;

TEST(Summary, TellsMeanMostAndLeastOfEachGpu) {
  const auto summary = summarize(record(2, 4, 5s, [](facts::Snapshot& snapshot, int i) {
    set_load(snapshot.gpus[0], 20 * (i + 1), Bytes((10 + static_cast<std::uint64_t>(i)) << 30U));
    snapshot.gpus[0].sample.temperature = Celsius(60 + i);
  }));
  ASSERT_EQ(summary.gpus.size(), 2U);
  const GpuSummary& gpu = summary.gpus[0];
  const auto* utilization = gpu.figure("utilization");
  ASSERT_NE(utilization, nullptr);
  EXPECT_DOUBLE_EQ(utilization->mean, 50);
  EXPECT_DOUBLE_EQ(utilization->min, 20);
  EXPECT_DOUBLE_EQ(utilization->max, 80);
  EXPECT_EQ(utilization->readings, 4U);
  EXPECT_DOUBLE_EQ(gpu.figure("temperature")->max, 63);
  EXPECT_EQ(gpu.memory_total, 80_GiB);
  EXPECT_DOUBLE_EQ(*gpu.peak_memory_share(), 13.0 / 80);
  EXPECT_EQ(gpu.figure("memory_temperature"), nullptr) << "what no reading tells is unknown";
  EXPECT_EQ(gpu.readings, 4U);
  EXPECT_EQ(gpu.gaps, 0U);
  EXPECT_EQ(summary.duration(), 15s);
}

TEST(Summary, EnergyIsTheCountersDifferenceElsePowerIntegrated) {
  const auto summary = summarize(record(2, 3, 10s, [](facts::Snapshot& snapshot, int i) {
    snapshot.gpus[0].sample.energy = Millijoules(1'000'000 + 500'000 * i);
  }));
  EXPECT_DOUBLE_EQ(summary.gpus[0].energy->joules, 1000);
  EXPECT_TRUE(summary.gpus[0].energy->from_counter);
  EXPECT_DOUBLE_EQ(summary.gpus[1].energy->joules, 200.0 * 20);
  EXPECT_FALSE(summary.gpus[1].energy->from_counter);
  const Totals totals = totals_of(summary);
  EXPECT_DOUBLE_EQ(*totals.joules, 5000);
  EXPECT_TRUE(totals.joules_are_estimate);
}

TEST(Summary, EnergyIsThatOfTheGpusThatTellIt) {
  const auto summary = summarize(record(2, 3, 10s, [](facts::Snapshot& snapshot, int i) {
    snapshot.gpus[0].sample.energy = Millijoules(1'000'000 + 500'000 * i);
    snapshot.gpus[1].state = facts::GpuState::lost;
  }));
  const Totals totals = totals_of(summary);
  EXPECT_DOUBLE_EQ(*totals.joules, 1000);
  EXPECT_EQ(totals.without_energy, 1U);
  EXPECT_EQ(total_energy_text(totals, 2), "1000 J (of 1 GPU)");
  EXPECT_EQ(total_energy_text(totals_of(Summary{}), 0), "-");
}

TEST(Summary, AGpuThatTellsItsUuidAtLastIsCountedOnce) {
  const auto summary = summarize([] {
    auto recording = record(2, 4, 5s, [](facts::Snapshot& snapshot, int i) {
      if (i >= 2) return;
      snapshot.gpus[1].gpu.uuid = Uuid("");
      snapshot.gpus[1].state = facts::GpuState::needs_reset;
    });
    join_nameless(recording);
    return recording;
  }());
  ASSERT_EQ(summary.gpus.size(), 2U);
  EXPECT_EQ(summary.gpus[1].uuid, gpuwarden::testing::fleet(2).gpus[1].gpu.uuid);
  EXPECT_FALSE(summary.gpus[1].lost) << "it came back";
}

TEST(Summary, AGpuThatNeverTellsItsUuidIsCountedOnceToo) {
  const auto summary = summarize(record(2, 3, 5s, [](facts::Snapshot& snapshot, int) {
    for (auto& one : snapshot.gpus) {
      one.gpu.uuid = Uuid("");
      one.state = facts::GpuState::lost;
    }
  }));
  EXPECT_EQ(summary.gpus.size(), 2U);
}

TEST(Summary, WithoutAReadingNothingIsDatedTo1970) {
  const Summary summary = summarize(Recording{});
  EXPECT_FALSE(summary.has_readings());
  EXPECT_EQ(window_text(summary), "no reading");
  EXPECT_TRUE(to_json(summary)["from"].is_null());
}

TEST(Summary, IdleTimeAndItsLongestStretchAreFound) {
  const auto summary = summarize(record(1, 10, 60s, [](facts::Snapshot& snapshot, int i) {
    set_load(snapshot.gpus[0], i >= 2 && i < 6 ? 0 : i == 8 ? 1 : 90, 1_GiB);
  }));
  const GpuSummary& gpu = summary.gpus[0];
  EXPECT_EQ(gpu.idle, 300s) << "four minutes, and the one in which 1 % was used";
  ASSERT_TRUE(gpu.longest_idle);
  EXPECT_EQ(gpu.longest_idle->from, noon() + 120s);
  EXPECT_EQ(gpu.longest_idle->lasted, 240s);
  EXPECT_DOUBLE_EQ(*gpu.idle_share(), 0.5);
}

TEST(Summary, ThrottlingIsASharePerReasonWithoutWhatIsNoSlowdown) {
  using facts::ThrottleReason;
  const auto summary = summarize(record(1, 5, 10s, [](facts::Snapshot& snapshot, int i) {
    auto& reasons = *snapshot.gpus[0].sample.throttle_reasons;
    reasons.push_back(ThrottleReason::applications_clocks_setting);
    if (i == 1 || i == 2) reasons.push_back(ThrottleReason::hw_thermal_slowdown);
    if (i == 2) reasons.push_back(ThrottleReason::sw_power_cap);
  }));
  const GpuSummary& gpu = summary.gpus[0];
  ASSERT_EQ(gpu.throttling.size(), 2U);
  EXPECT_EQ(gpu.throttling[0].reason, ThrottleReason::hw_thermal_slowdown);
  EXPECT_EQ(gpu.throttling[0].time, 20s);
  EXPECT_DOUBLE_EQ(gpu.throttling[0].share, 0.5);
  EXPECT_DOUBLE_EQ(gpu.throttling[1].share, 0.25);
  EXPECT_DOUBLE_EQ(*gpu.throttled_share, 0.5) << "two reasons at once count once";
}

TEST(Summary, HolesBetweenReadingsAreGapsAndCountForNothing) {
  Collector collector(1s);
  for (const int second : {0, 1, 2, 3, 60, 61}) {
    auto reading = gpuwarden::testing::reading_at(
        1, second, 1s, [](facts::Snapshot& snapshot, int) { set_load(snapshot.gpus[0], 0, 1_GiB); });
    collector.add(reading.snapshot.gpus[0], reading.snapshot.gpus[0].gpu.uuid, reading.snapshot.taken_at);
  }
  const auto summary = summarize(collector.recording());
  EXPECT_EQ(summary.gpus[0].gaps, 1U);
  EXPECT_EQ(summary.gpus[0].gap_time, 56s);
  EXPECT_EQ(summary.gpus[0].idle, 6s);
}

TEST(Summary, ALostGpuIsRememberedUnlessItComesBack) {
  const auto fill = [](bool back) {
    return [back](facts::Snapshot& snapshot, int i) {
      if (i < 2 || (back && i > 3)) return;
      facts::GpuRecord& record = snapshot.gpus[1];
      record.gpu.uuid = Uuid("");
      record.sample = {};
      record.state = facts::GpuState::lost;
      record.cause = "it fell off the bus";
    };
  };
  const auto lost = summarize(record(2, 6, 5s, fill(false)));
  ASSERT_EQ(lost.gpus.size(), 2U) << "it is the GPU that was in its place";
  ASSERT_TRUE(lost.gpus[1].lost);
  EXPECT_EQ(lost.gpus[1].lost->text, "it fell off the bus");
  EXPECT_EQ(lost.gpus[1].lost->time, noon() + 10s);
  EXPECT_FALSE(lost.gpus[0].lost);
  EXPECT_FALSE(summarize(record(2, 6, 5s, fill(true))).gpus[1].lost);
}

TEST(Summary, JsonIsReadBackWithoutLoss) {
  auto recorded = record(3, 30, 10s, [](facts::Snapshot& snapshot, int i) {
    set_load(snapshot.gpus[0], i % 7 == 0 ? 0 : 80, 20_GiB);
    snapshot.gpus[0].sample.energy = Millijoules(1'000'000 + 500'000 * i);
    snapshot.gpus[1].sample.throttle_reasons = {facts::ThrottleReason::hw_thermal_slowdown};
    if (i > 20) snapshot.gpus[2].state = facts::GpuState::lost;
  });
  recorded.uses.push_back({.user = "ann",
                           .job = "r1",
                           .pid = Pid{7},
                           .command = "python",
                           .gpu = Uuid("GPU-0000-test"),
                           .index = {},
                           .from = noon(),
                           .to = noon() + 60s,
                           .gpu_seconds = 60,
                           .busy_seconds = 48,
                           .mean_utilization = 80,
                           .peak_memory = 20_GiB});
  const auto json = to_json(summarize(recorded));
  EXPECT_EQ(json["users"][0]["user"], "ann");
  EXPECT_FALSE(json["waste"].empty());
  EXPECT_FALSE(json["happenings"].empty());
  const auto back = summary_from_json(json);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), json);
}

TEST(Summary, WhatStrangersLeaveOutStaysUnknown) {
  const auto summary = summary_from_json(nlohmann::json::parse(
      R"({"kind":"recording","gpus":[
           {"index":3,"utilization_percent":{"mean":40},"power_watts":{},"temperature_celsius":{"max":71,"min":null},
            "memory_total_bytes":1024},
           {"peak_memory_bytes":512,"memory_total_bytes":1024}]})"));
  ASSERT_TRUE(summary) << summary.error().message;
  const GpuSummary& gpu = summary->gpus[0];
  EXPECT_EQ(mean_max_min(gpu.figure("utilization"), "%"), "40 / - / - %");
  EXPECT_EQ(mean_max_min(gpu.figure("temperature"), "°C"), "- / 71 / - °C");
  EXPECT_EQ(gpu.figure("power"), nullptr) << "nothing is known of it";
  EXPECT_THAT(figure_cells(gpu), ElementsAre("40 / - / - %", "-", "- / 71 / - °C", "-", "-", "-", "-"));
  EXPECT_EQ(held_text({.gpu_seconds = 5400}), "1 h 30 min");
  EXPECT_EQ(gpu.used(), true);
  EXPECT_FALSE(gpu.peak_memory_share());
  EXPECT_EQ(summary->gpus[1].index.value, 1U) << "its place";
  EXPECT_EQ(summary->gpus[1].peak_memory_share(), 0.5);
  EXPECT_FALSE(summary->gpus[1].used());
  const Totals totals = totals_of(*summary);
  EXPECT_EQ(totals.peak_temperature, 71);
  EXPECT_FALSE(totals.mean_watts);
  const auto json = to_json(*summary)["gpus"][0];
  EXPECT_TRUE(json["utilization_percent"]["min"].is_null());
  EXPECT_EQ(json["utilization_percent"]["mean"], 40);
  EXPECT_TRUE(summary_from_json(to_json(*summary)));
}

TEST(Summary, JsonOfStrangersFailsNamingTheKey) {
  const auto of = [](const char* text) { return summary_from_json(nlohmann::json::parse(text)); };
  EXPECT_EQ(of("[]").error().code, ErrorCode::corrupt);
  EXPECT_THAT(of(R"({"gpus":[{"index":"x"}]})").error().message, ::testing::HasSubstr("'index'"));
  EXPECT_THAT(of(R"({"gpus":7})").error().message, ::testing::HasSubstr("'gpus'"));
  EXPECT_THAT(of(R"({"from":"yesterday"})").error().message, ::testing::HasSubstr("'from'"));
  EXPECT_THAT(of(R"({"from":"9999-01-01T00:00:00Z"})").error().message, ::testing::HasSubstr("'from'"));
  EXPECT_THAT(of(R"({"waste":[{"id":1}]})").error().message, ::testing::HasSubstr("'id'"));
  EXPECT_TRUE(of(R"({"gpus":[{"index":1e17,"readings":-5}],"duration_seconds":1e17})")) << "out of bounds, not of type";
}

TEST(Summary, NoGpuIsNoFigureNotNought) {
  const auto summary = summarize(Recording{});
  EXPECT_TRUE(summary.gpus.empty());
  EXPECT_TRUE(summary.waste.empty());
  const Totals totals = totals_of(summary);
  EXPECT_FALSE(totals.mean_utilization || totals.joules || totals.used || totals.idle_share);
}

TEST(ThinSeries, NeverHasMoreThanItsPointsAndKeepsLeastMeanAndMost) {
  ThinSeries series(8);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    series.add(noon() + i * 1s, (i * 37) % 101);
    sum += (i * 37) % 101;
    ASSERT_LE(series.points().size(), 8U);
  }
  double least = 1000;
  double most = 0;
  double total = 0;
  unsigned readings = 0;
  for (const auto& point : series.points()) {
    least = std::min(least, point.min);
    most = std::max(most, point.max);
    total += point.mean * point.readings;
    readings += point.readings;
  }
  EXPECT_EQ(readings, 1000U);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(most, 100);
  EXPECT_NEAR(total, sum, 1e-6);
}

TEST(ThinSeries, FewReadingsStayAsTheyCame) {
  ThinSeries series(8);
  for (int i = 0; i < 5; ++i) series.add(noon() + i * 1s, i);
  EXPECT_EQ(series.points().size(), 5U);
  EXPECT_EQ(series.readings_in_a_point(), 1U);
  EXPECT_EQ(series.points()[3], (telemetry::Point{noon() + 3s, 3, 3, 3, 1}));
}

TEST(Watch, TellsXidsThrottlingLossAndReturnOnce) {
  Watch watch;
  std::vector<std::string> told;
  for (int i = 0; i < 8; ++i) {
    auto reading = gpuwarden::testing::reading_at(1, i, 1s, [](facts::Snapshot& snapshot, int n) {
      if (n >= 2 && n < 4) snapshot.gpus[0].sample.throttle_reasons = {facts::ThrottleReason::sw_power_cap};
      if (n == 5) snapshot.gpus.clear();
    });
    if (i == 4)
      reading.events.push_back({facts::GpuEventKind::xid, reading.snapshot.gpus[0].gpu.uuid, 31, noon() + 4s});
    watch.identify(reading.snapshot);
    for (const auto& happening : watch.judge(reading)) {
      if (happening.kind != kAlertKind) told.push_back(happening.kind + ": " + happening.text);
    }
  }
  EXPECT_THAT(told, ElementsAre("throttle: ", "throttle: sw_power_cap", "xid: Xid 31",
                                "throttle: ", "lost: the driver no longer reports this GPU", "back: it answers again"));
}

std::vector<std::string> told_of_loss(Watch& watch, telemetry::Reading reading) {
  std::vector<std::string> told;
  watch.identify(reading.snapshot);
  for (const auto& happening : watch.judge(reading)) {
    if (happening.kind != kThrottleKind) told.push_back(happening.kind + ": " + happening.text);
  }
  return told;
}

void lose(facts::Snapshot& snapshot, std::size_t gpu) {
  snapshot.gpus[gpu].state = facts::GpuState::lost;
  snapshot.gpus[gpu].cause = "it fell off the PCIe bus";
}

TEST(Watch, ALossIsToldOnceWhetherAnEventOrAReadingComesFirst) {
  using gpuwarden::testing::reading_at;
  const auto well = [](facts::Snapshot&, int) {};
  const auto lost = [](facts::Snapshot& snapshot, int) { lose(snapshot, 0); };
  const auto with_event = [](telemetry::Reading reading) {
    reading.events.push_back({facts::GpuEventKind::lost, reading.snapshot.gpus[0].gpu.uuid, 0, {}});
    return reading;
  };
  {
    Watch watch;
    EXPECT_THAT(told_of_loss(watch, reading_at(1, 0, 1s, well)), ElementsAre());
    EXPECT_THAT(told_of_loss(watch, with_event(reading_at(1, 1, 1s, lost))),
                ElementsAre("lost: it fell off the PCIe bus"))
        << "both at once";
    EXPECT_THAT(told_of_loss(watch, with_event(reading_at(1, 2, 1s, lost))), ElementsAre()) << "a late event";
    EXPECT_THAT(told_of_loss(watch, reading_at(1, 3, 1s, well)), ElementsAre("back: it answers again"));
  }
  Watch watch;
  EXPECT_THAT(told_of_loss(watch, reading_at(1, 0, 1s, well)), ElementsAre());
  EXPECT_THAT(told_of_loss(watch, with_event(reading_at(1, 1, 1s, well))), ElementsAre("lost: it fell off the bus"))
      << "the reading was begun before";
  EXPECT_THAT(told_of_loss(watch, reading_at(1, 2, 1s, lost)), ElementsAre());
}

TEST(Watch, GpusThatTellNoUuidAreToldApart) {
  Watch watch;
  const auto told = [&](int number) {
    return told_of_loss(watch, gpuwarden::testing::reading_at(3, number, 20s, [](facts::Snapshot& snapshot, int) {
                          for (const std::size_t gpu : {1U, 2U}) {
                            lose(snapshot, gpu);
                            snapshot.gpus[gpu].gpu.uuid = Uuid("");
                          }
                        }));
  };
  EXPECT_THAT(told(0), ElementsAre("lost: it fell off the PCIe bus", "lost: it fell off the PCIe bus"));
  EXPECT_THAT(told(1), ElementsAre()) << "an alert that says so again is not told";
}

TEST(Watch, AlertsOfTheBuiltInRulesAreAmongWhatHappened) {
  Watch watch;
  std::vector<telemetry::Happening> alerts;
  for (int i = 0; i < 200; ++i) {
    auto reading = gpuwarden::testing::reading_at(1, i, 1s, [](facts::Snapshot& snapshot, int) {
      snapshot.gpus[0].gpu.temperature_slowdown = Celsius(87);
      snapshot.gpus[0].gpu.temperature_shutdown = Celsius(92);
      snapshot.gpus[0].sample.temperature = Celsius(90);
    });
    for (const auto& happening : watch.judge(reading)) {
      if (happening.kind == kAlertKind) alerts.push_back(happening);
    }
  }
  ASSERT_FALSE(alerts.empty()) << "a GPU above its slowdown temperature for minutes";
  EXPECT_EQ(alerts[0].gpu.value, "GPU-0000-test");
}

}  // namespace
}  // namespace gpuwarden::recording
