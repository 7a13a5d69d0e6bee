// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/profile/gpu_readings.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace gpuwarden::profile {
namespace {

using namespace std::chrono_literals;

Clock::SteadyTime at(std::chrono::milliseconds time) { return Clock::SteadyTime(time); }

GpuReading reading(std::chrono::milliseconds when, std::uint32_t gpu = 0) {
  return {.when = at(when), .gpu = GpuIndex{gpu}, .utilization = {}, .memory_used = {}, .power = {}, .energy = {}};
}

GpuReadings of(std::initializer_list<GpuReading> all) {
  GpuReadings readings;
  for (const auto& one : all) readings.add(one);
  return readings;
}

TEST(GpuReadings, EnergyIsPowerOverTimeBetweenReadings) {
  auto first = reading(0ms);
  auto second = reading(1000ms);
  auto third = reading(2000ms);
  first.power = 100_W;
  second.power = 200_W;
  third.power = 200_W;
  const auto readings = of({first, second, third});
  EXPECT_NEAR(readings.span(at(0ms), at(2000ms))->joules.value(), 150 + 200, 1e-9);
  // From 150 W to 200 W in half a second, then 200 W for half a second.
  EXPECT_NEAR(readings.span(at(500ms), at(1500ms))->joules.value(), 87.5 + 100, 1e-9);
}

TEST(GpuReadings, TheCounterIsBelievedBeforePower) {
  auto first = reading(0ms);
  auto second = reading(1000ms);
  first.power = second.power = 500_W;
  first.energy = Millijoules(1'000'000);
  second.energy = Millijoules(1'080'000);
  EXPECT_NEAR(of({first, second}).span(at(250ms), at(750ms))->joules.value(), 40, 1e-9);
}

TEST(GpuReadings, ACounterThatBeganAnewIsLeftForPower) {
  auto first = reading(0ms);
  auto second = reading(1000ms);
  first.power = second.power = 500_W;
  first.energy = Millijoules(1'000'000);
  second.energy = Millijoules(10);
  EXPECT_NEAR(of({first, second}).span(at(0ms), at(1000ms))->joules.value(), 500, 1e-9);
}

TEST(GpuReadings, WhatIsNotSurroundedByReadingsIsNotKnown) {
  auto first = reading(100ms);
  auto second = reading(200ms);
  first.power = second.power = 500_W;
  const auto readings = of({first, second});
  EXPECT_FALSE(readings.span(at(50ms), at(150ms)));
  EXPECT_FALSE(readings.span(at(150ms), at(250ms)));
  EXPECT_TRUE(readings.span(at(100ms), at(200ms)));
  EXPECT_FALSE(GpuReadings().span(at(0ms), at(1ms)));
}

TEST(GpuReadings, EnergyOfAllGpusNeedsAllOfThem) {
  auto first = reading(0ms);
  auto second = reading(1000ms);
  first.power = second.power = 100_W;
  auto readings = of({first, second, reading(0ms, 1), reading(1000ms, 1)});
  EXPECT_FALSE(readings.span(at(0ms), at(1000ms))->joules);
  EXPECT_FALSE(readings.reach(at(1001ms)));
  EXPECT_TRUE(readings.reach(at(1000ms)));
}

TEST(GpuReadings, UtilizationStandsForTheTimeBeforeItsReading) {
  auto first = reading(0ms);
  auto second = reading(1000ms);
  auto third = reading(2000ms);
  first.utilization = 0_pct;
  second.utilization = 20_pct;
  third.utilization = 80_pct;
  const auto readings = of({first, second, third});
  EXPECT_NEAR(readings.span(at(500ms), at(2000ms))->utilization.value(), (0.5 * 20 + 80) / 1.5, 1e-9);
}

TEST(GpuReadings, ThePeakOfMemoryIsTheGreatestReadingAroundTheSpan) {
  auto first = reading(0ms);
  auto second = reading(1000ms);
  auto third = reading(2000ms);
  first.memory_used = 9_GiB;
  second.memory_used = 5_GiB;
  third.memory_used = 7_GiB;
  EXPECT_EQ(of({first, second, third}).span(at(1100ms), at(1900ms))->memory_peak, 7_GiB);
}

TEST(GpuReadings, KeepsTheLatestAndRefusesWhatIsOlder) {
  GpuReadings readings(2);
  for (const auto when : {0ms, 1000ms, 2000ms}) readings.add(reading(when));
  readings.add(reading(1500ms));
  ASSERT_EQ(readings.all().size(), 2U);
  EXPECT_EQ(readings.all()[0].when, at(1000ms));
  EXPECT_EQ(readings.all()[1].when, at(2000ms));
}

TEST(ReadingsOf, TakesWhatAnswersAndNothingElse) {
  facts::Snapshot snapshot;
  snapshot.gpus.resize(2);
  snapshot.gpus[0].sample.power = 300_W;
  snapshot.gpus[0].sample.utilization_gpu = 40_pct;
  snapshot.gpus[1].gpu.index = GpuIndex{1};
  snapshot.gpus[1].state = facts::GpuState::lost;
  const auto readings = readings_of(snapshot, at(5ms));
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].power, 300_W);
  EXPECT_EQ(readings[0].utilization, 40_pct);
  EXPECT_FALSE(readings[0].energy);
}

TEST(GpuReadings, AGpuThatIsGoneIsNotWaitedFor) {
  auto readings = of({reading(0ms), reading(0ms, 1), reading(1000ms), reading(2000ms)});
  EXPECT_FALSE(readings.reach(at(1500ms)));
  EXPECT_FALSE(readings.span(at(500ms), at(1500ms)));
  auto third = reading(3000ms);
  third.utilization = Percent(40);
  readings.add(third);
  EXPECT_TRUE(readings.reach(at(2500ms)));
  EXPECT_TRUE(readings.span(at(500ms), at(1500ms)));
  EXPECT_DOUBLE_EQ(readings.span(at(2100ms), at(2900ms))->utilization.value(), 40);
}

TEST(GpuReadings, WhatAGpuUsedThatWasLostMeanwhileIsNotKnown) {
  GpuReadings readings;
  for (const auto when : {0ms, 1000ms, 2000ms, 3000ms, 4000ms}) {
    for (const std::uint32_t gpu : {0U, 1U}) {
      auto one = reading(when, gpu);
      one.power = 100_W;
      if (gpu == 0 || when <= 1000ms) readings.add(one);
    }
  }
  EXPECT_NEAR(readings.span(at(0ms), at(1000ms))->joules.value(), 200, 1e-9);
  EXPECT_FALSE(readings.span(at(500ms), at(1500ms))->joules);
  EXPECT_NEAR(readings.span(at(2000ms), at(3000ms))->joules.value(), 100, 1e-9);
}

}  // namespace
}  // namespace gpuwarden::profile
