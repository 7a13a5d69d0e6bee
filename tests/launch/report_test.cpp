// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/report.hpp"

#include <nlohmann/json.hpp>

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;

facts::Snapshot reading(int utilization, Bytes used, int celsius, Milliwatts power, std::optional<Millijoules> energy) {
  facts::Snapshot snapshot;
  facts::GpuRecord& record = snapshot.gpus.emplace_back();
  record.gpu.uuid = Uuid("GPU-a");
  record.gpu.name = "Tesla T4";
  record.sample.utilization_gpu = Percent(utilization);
  record.sample.memory_used = used;
  record.sample.temperature = Celsius(celsius);
  record.sample.power = power;
  record.sample.energy = energy;
  record.sample.throttle_reasons = {facts::ThrottleReason::gpu_idle, facts::ThrottleReason::sw_power_cap};
  return snapshot;
}

TEST(Report, KeepsPeaksMeansAndTheEnergyCountersDifference) {
  ReportBuilder builder({Uuid("GPU-a"), Uuid("GPU-absent")});
  const Clock::SteadyTime start{};
  builder.add(reading(20, 1_GiB, 40, 50_W, Millijoules(1'000'000)), start);
  builder.add(reading(80, 3_GiB, 60, 70_W, Millijoules(1'120'000)), start + 2s);
  builder.add(reading(50, 2_GiB, 55, 60_W, Millijoules(1'250'000)), start + 4s);
  const auto reports = builder.finish();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].peak_memory, 3_GiB);
  EXPECT_EQ(reports[0].peak_temperature, 60_degC);
  EXPECT_DOUBLE_EQ(*reports[0].mean_utilization, 50);
  EXPECT_DOUBLE_EQ(*reports[0].energy_joules, 250);
  EXPECT_FALSE(reports[0].energy_is_estimate);
  EXPECT_THAT(reports[0].throttling, ::testing::ElementsAre(facts::ThrottleReason::sw_power_cap));
  EXPECT_EQ(reports[1].samples, 0U);
  EXPECT_FALSE(reports[1].peak_memory);
}

TEST(Report, IntegratesPowerWhereThereIsNoCounterAndSaysSo) {
  ReportBuilder builder({Uuid("GPU-a")});
  const Clock::SteadyTime start{};
  builder.add(reading(0, 0_B, 30, 100_W, std::nullopt), start);
  builder.add(reading(0, 0_B, 30, 200_W, std::nullopt), start + 10s);
  const auto reports = builder.finish();
  EXPECT_DOUBLE_EQ(*reports[0].energy_joules, 1500);
  EXPECT_TRUE(reports[0].energy_is_estimate);
}

TEST(Report, WhatWasReadBeforeAndAfterTheJobSaysNothingOfItButTheEnergyAndTheGpusState) {
  ReportBuilder builder({Uuid("GPU-a")});
  const Clock::SteadyTime start{};
  builder.add(reading(0, 9_GiB, 70, 50_W, Millijoules(1'000'000)), start, Moment::around_job);
  builder.add(reading(80, 3_GiB, 60, 70_W, Millijoules(1'100'000)), start + 1s);
  builder.add(reading(0, 0_B, 30, 50_W, Millijoules(1'250'000)), start + 2s, Moment::around_job);
  const GpuReport report = builder.finish()[0];
  EXPECT_EQ(report.samples, 1U);
  EXPECT_EQ(report.peak_memory, 3_GiB);
  EXPECT_EQ(report.peak_temperature, 60_degC);
  EXPECT_DOUBLE_EQ(*report.mean_utilization, 80);
  EXPECT_DOUBLE_EQ(*report.energy_joules, 250);
}

TEST(Report, AJobThatWasOverBeforeItsGpuWasReadHasNoFiguresAndNoNoughts) {
  ReportBuilder builder({Uuid("GPU-a")});
  const Clock::SteadyTime start{};
  builder.add(reading(0, 0_B, 30, 50_W, Millijoules(1'000'000)), start, Moment::around_job);
  builder.add(reading(0, 0_B, 30, 50_W, Millijoules(1'000'000)), start + 1s, Moment::around_job);
  RunReport report;
  report.gpus = builder.finish();
  EXPECT_EQ(report.gpus[0].samples, 0U);
  const auto gpu = to_json(report)["gpus"][0];
  EXPECT_EQ(gpu["name"], "Tesla T4") << "what it is, is known";
  for (const char* figure :
       {"peak_memory_bytes", "mean_utilization_percent", "peak_temperature_celsius", "energy_joules"})
    EXPECT_TRUE(gpu[figure].is_null()) << figure;
}

TEST(Report, TroubleIsRemembered) {
  ReportBuilder builder({Uuid("GPU-a")});
  auto lost = reading(0, 0_B, 30, 100_W, std::nullopt);
  lost.gpus[0].state = facts::GpuState::lost;
  lost.gpus[0].cause = "the GPU is lost";
  builder.add(lost, {});
  EXPECT_EQ(builder.finish()[0].trouble, "the GPU is lost");
  RunReport report;
  report.simulated = true;
  report.gpus = builder.finish();
  const auto json = to_json(report);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_TRUE(json["gpus"][0]["peak_memory_bytes"].is_null());
  EXPECT_EQ(json["gpus"][0]["trouble"], "the GPU is lost");
}

TEST(Report, AGpuThatCameBackHadTroubleButIsNotLost) {
  ReportBuilder builder({Uuid("GPU-a")});
  auto lost = reading(0, 0_B, 30, 100_W, std::nullopt);
  lost.gpus[0].state = facts::GpuState::not_answering;
  lost.gpus[0].cause = "it does not answer";
  builder.add(lost, {});
  EXPECT_TRUE(builder.finish()[0].summary.lost.has_value());
  builder.add(reading(20, 1_GiB, 40, 50_W, std::nullopt), {});
  EXPECT_FALSE(builder.finish()[0].summary.lost.has_value());
  EXPECT_EQ(builder.finish()[0].trouble, "it does not answer");
}

TEST(Report, OneThatIsLostBeforeItIsReadIsKnownByThePlaceWhereItWasChosen) {
  ReportBuilder builder({Uuid("GPU-a")}, {GpuIndex{0}});
  auto lost = reading(0, 0_B, 0, 0_W, std::nullopt);
  lost.gpus[0].gpu.uuid = Uuid("");
  lost.gpus[0].state = facts::GpuState::lost;
  lost.gpus[0].cause = "it fell off the bus";
  builder.add(lost, {});
  const auto reports = builder.finish();
  EXPECT_EQ(reports[0].trouble, "it fell off the bus");
  EXPECT_TRUE(reports[0].summary.lost.has_value());
}

TEST(Report, AGpuThatIsLostInMidRunIsKnownByItsPlaceAndWarnedOf) {
  ReportBuilder builder({Uuid("GPU-a")});
  builder.add(reading(20, 1_GiB, 40, 50_W, std::nullopt), {});
  auto lost = reading(0, 0_B, 0, 0_W, std::nullopt);
  lost.gpus[0].gpu.uuid = Uuid("");
  lost.gpus[0].state = facts::GpuState::lost;
  lost.gpus[0].cause = "it fell off the bus";
  builder.add(lost, {});
  RunReport report;
  report.gpus = builder.finish();
  EXPECT_EQ(report.gpus[0].trouble, "it fell off the bus");
  EXPECT_EQ(report.gpus[0].peak_memory, 1_GiB) << "what was seen before stays";
  EXPECT_THAT(gpu_warnings(report), ::testing::ElementsAre("GPU 0 failed during the run: it fell off the bus"));
  EXPECT_EQ(to_json(report)["warnings"].size(), 1U);
}

TEST(Report, AGpuThatIsNoLongerListedIsWarnedOf) {
  ReportBuilder builder({Uuid("GPU-a"), Uuid("GPU-never-seen")});
  builder.add(reading(20, 1_GiB, 40, 50_W, std::nullopt), {});
  builder.add({}, {});
  EXPECT_THAT(builder.finish()[0].trouble, ::testing::HasSubstr("no longer"));
  EXPECT_EQ(builder.finish()[1].trouble, "");
}

}  // namespace
}  // namespace gpuwarden::launch
