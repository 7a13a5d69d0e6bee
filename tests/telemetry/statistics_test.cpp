// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace {

using namespace gpuwarden::telemetry;
using namespace std::chrono_literals;

constexpr WallTime kBegin{std::chrono::seconds(1'700'000'000)};

Point at(std::chrono::milliseconds after, double value) { return {kBegin + after, value, value, value, 1}; }

/// One value a second, as read.
Series each_second(const std::vector<double>& values) {
  Series series;
  for (std::size_t i = 0; i < values.size(); ++i) series.points.push_back(at(static_cast<int>(i) * 1s, values[i]));
  return series;
}

TEST(Statistics, NothingIsKnownOfNoReading) { EXPECT_EQ(statistics_of({}), std::nullopt); }

TEST(Statistics, ASingleReadingIsAllOfThem) {
  const auto statistics = statistics_of(each_second({42}));
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->readings, 1U);
  for (const double value : {statistics->min, statistics->mean, statistics->max, statistics->p50, statistics->p99})
    EXPECT_EQ(value, 42);
}

TEST(Statistics, PercentilesOfOneToAHundred) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const auto statistics = statistics_of(each_second(values));
  EXPECT_EQ(statistics->p50, 50);
  EXPECT_EQ(statistics->p95, 95);
  EXPECT_EQ(statistics->p99, 99);
  EXPECT_DOUBLE_EQ(statistics->mean, 50.5);
  EXPECT_EQ(statistics->covered, 100s);
}

TEST(Statistics, AReadingCountsForTheTimeUntilTheNext) {
  Series series;
  series.points = {at(0s, 0), at(1s, 0), at(2s, 90), at(4s, 0), at(5s, 0)};
  const auto statistics = statistics_of(series);
  // 0 for 1 + 1 + 1 + 1 s, 90 for 2 s.
  EXPECT_DOUBLE_EQ(statistics->mean, 30);
  EXPECT_EQ(statistics->covered, 6s);
  EXPECT_EQ(time_above(series, 50), 2s);
}

TEST(Statistics, AGapCountsForNothing) {
  Series series;
  for (int i = 0; i < 10; ++i) series.points.push_back(at(i * 1s, 100));
  for (int i = 0; i < 10; ++i) series.points.push_back(at(1h + i * 1s, 0));
  const auto statistics = statistics_of(series);
  EXPECT_EQ(statistics->covered, 20s);
  EXPECT_DOUBLE_EQ(statistics->mean, 50);
  EXPECT_EQ(time_above(series, 50), 10s);
}

TEST(Statistics, WhateverTheReadingsTheOrderOfTheFiguresHolds) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Series series;
    std::chrono::milliseconds time{};
    for (unsigned i = 0; i < 1 + random() % 60; ++i) {
      time += std::chrono::milliseconds(1 + random() % (random() % 10 == 0 ? 60'000 : 1000));
      series.points.push_back(at(time, static_cast<double>(random() % 1000)));
    }
    const auto s = statistics_of(series);
    ASSERT_TRUE(s);
    EXPECT_LE(s->min, s->p50);
    EXPECT_LE(s->p50, s->p95);
    EXPECT_LE(s->p95, s->p99);
    EXPECT_LE(s->p99, s->max);
    EXPECT_LE(s->min, s->mean);
    EXPECT_LE(s->mean, s->max);
    EXPECT_EQ(s->readings, series.points.size());
    EXPECT_EQ(time_above(series, s->max), 0ms);
    EXPECT_EQ(time_above(series, s->min - 1), s->covered);
    // At least 95 % of the time is not above the 95th percentile.
    EXPECT_LE(time_above(series, s->p95).count(), s->covered.count() / 20 + 1);
  }
}

TEST(Energy, TheCounterIsBelievedAndTheIntegralBesideIt) {
  Series power = each_second(std::vector<double>(101, 300));
  std::vector<double> joules;
  for (int i = 0; i <= 100; ++i) joules.push_back(5000 + 310 * i);
  const auto energy = energy_of(power, each_second(joules));
  ASSERT_TRUE(energy);
  EXPECT_TRUE(energy->from_counter);
  EXPECT_DOUBLE_EQ(energy->joules, 31'000);
  ASSERT_TRUE(energy->integral_to_counter);
  EXPECT_NEAR(*energy->integral_to_counter, 30.0 / 31, 1e-9);
}

TEST(Energy, WithoutACounterPowerIsIntegratedByTrapezoids) {
  Series power;
  power.points = {at(0s, 100), at(1s, 200), at(2s, 100)};
  const auto energy = energy_of(power, {});
  ASSERT_TRUE(energy);
  EXPECT_FALSE(energy->from_counter);
  EXPECT_DOUBLE_EQ(energy->joules, 300);
  EXPECT_EQ(energy_of(each_second({100}), {}), std::nullopt) << "one reading is no time";
}

TEST(Energy, AGapIsNotIntegratedButTheCounterGoesOn) {
  Series power;
  Series counter;
  for (const auto begin : {0s, 3600s}) {
    for (int i = 0; i < 10; ++i) {
      power.points.push_back(at(begin + i * 1s, 100));
      counter.points.push_back(at(begin + i * 1s, 100.0 * static_cast<double>(begin.count() + i)));
    }
  }
  EXPECT_DOUBLE_EQ(energy_of(power, {})->joules, 1800);
  EXPECT_DOUBLE_EQ(energy_of(power, counter)->joules, 360'900);
  EXPECT_DOUBLE_EQ(energy_of(power, counter)->integral_to_counter.value_or(0), 1) << "compared where both are known";
}

TEST(Energy, ACounterThatBeganAnewCountsFromZero) {
  const auto energy = energy_of({}, each_second({1'000'000, 1'000'300, 200, 500}));
  EXPECT_DOUBLE_EQ(energy->joules, 300 + 200 + 300);
}

TEST(Energy, ACounterOf32BitsWraps) {
  const double wrap = 4294967.296;
  const auto energy = energy_of({}, each_second({wrap - 300, wrap - 100, 200, 500}));
  EXPECT_NEAR(energy->joules, 200 + 300 + 300, 1e-6);
}

TEST(Energy, StepsTellTheSameAsTheReadingsInThem) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    Series readings;
    Series steps;
    steps.step = 10s;
    double value = 100;
    const auto reset = static_cast<unsigned>(10 + random() % 80);
    for (unsigned i = 0; i < 100; ++i) {
      value = i == reset ? 0 : value + static_cast<double>(random() % 500);
      readings.points.push_back(at(i * 1s, value));
      if (i % 10 == 0) steps.points.push_back(at(i * 1s, value));
      Point& step = steps.points.back();
      step.min = std::min(step.min, value);
      step.max = std::max(step.max, value);
    }
    EXPECT_NEAR(energy_of({}, steps)->joules, energy_of({}, readings)->joules, 1e-6) << "reset at " << reset;
  }
}

TEST(Energy, PowerInStepsIsMeanTimesLength) {
  Series power;
  power.step = 60s;
  for (int i = 0; i < 10; ++i) power.points.push_back({kBegin + i * 60s, 100, 200, 400, 60});
  EXPECT_DOUBLE_EQ(energy_of(power, {})->joules, 200.0 * 600);
}

}  // namespace
