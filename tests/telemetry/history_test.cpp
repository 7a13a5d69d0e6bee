// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/history.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "support/matchers.hpp"
#include "support/repetitions.hpp"
#include "telemetry/readings.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::testing;
using namespace gpuwarden::telemetry;
using namespace std::chrono_literals;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Window kAll{WallTime{}, WallTime::max()};

Series series_of(const History& history, std::string_view metric, std::chrono::milliseconds step = {},
                 Window window = kAll) {
  auto series = history.series(reading_uuid(0), metric, window, step);
  EXPECT_THAT(series, IsOk());
  return series.value_or(Series{});
}

std::vector<double> means(const Series& series) {
  std::vector<double> values;
  for (const Point& point : series.points) values.push_back(point.mean);
  return values;
}

TEST(History, AnHourAtOneHertzOfSixteenGpusTakesLessThanTwentyMegabytes) {
  if (kSanitized) GTEST_SKIP() << "sizes are the release build's to show, and this takes minutes here";
  History history;
  BusyFleet fleet(16);
  for (int i = 0; i < 3600; ++i) history.add(fleet.next(i * 1s));
  EXPECT_LT(history.footprint(), 20'000'000U);
  const std::size_t full = history.footprint();
  std::size_t most = 0;
  for (int i = 3600; i < 7000; ++i) {
    history.add(fleet.next(i * 1s));
    most = std::max(most, history.footprint());
  }
  EXPECT_LT(most, full + 2'500'000) << "it is bounded; the columns of the last readings come and go";
  EXPECT_THAT(series_of(history, "power").points, SizeIs(3600));
}

TEST(History, ReadingsComeBackAsTheyWereRead) {
  History history;
  BusyFleet fleet(2);
  std::vector<Reading> readings;
  for (int i = 0; i < 300; ++i) {
    readings.push_back(fleet.next(i * 1s));
    history.add(readings.back());
  }
  for (const facts::Metric& metric : facts::metrics()) {
    const Series series = series_of(history, metric.id);
    ASSERT_THAT(series.points, SizeIs(300)) << metric.id;
    for (std::size_t i = 0; i < 300; ++i) {
      EXPECT_EQ(series.points[i].time, readings[i].snapshot.taken_at);
      EXPECT_EQ(series.points[i].mean, value_of(metric, readings[i].snapshot.gpus[0].sample)) << metric.id;
    }
  }
}

TEST(History, CountersKeepTheirFullPrecision) {
  History history;
  const double joules = 9'007'199'254.123;
  history.add(reading_with(0s, "energy", joules));
  history.add(reading_with(1s, "energy", joules + 0.001));
  EXPECT_THAT(means(series_of(history, "energy")),
              ElementsAre(DoubleNear(joules, 1e-5), DoubleNear(joules + 0.001, 1e-5)));
}

TEST(History, StepsAreAlignedToTheirMultiplesAndKeepMinMeanMax) {
  History history;
  for (int i = 0; i < 10; ++i) history.add(reading_with(7s + i * 1s, "utilization", i * 10));
  // The begin is a multiple of 10 s: 7 s to 9 s, then 10 s to 16 s.
  const Series series = series_of(history, "utilization", 10s);
  ASSERT_THAT(series.points, SizeIs(2));
  EXPECT_EQ(series.points[0], (Point{kReadingsBegin, 0, 10, 20, 3}));
  EXPECT_EQ(series.points[1], (Point{kReadingsBegin + 10s, 30, 60, 90, 7}));
}

TEST(History, AGapIsNoPointAndNotZero) {
  History history;
  history.add(reading_with(0s, "power", 100));
  history.add(bare_reading(1s, 1));
  history.add(reading_with(60s, "power", 120));
  EXPECT_THAT(means(series_of(history, "power")), ElementsAre(100, 120));
  EXPECT_THAT(series_of(history, "power", 10s).points, SizeIs(2));
  EXPECT_THAT(series_of(history, "fan_speed").points, SizeIs(0));
}

TEST(History, AWindowIncludesItsBeginAndNotItsEnd) {
  History history;
  for (int i = 0; i < 400; ++i) history.add(reading_with(i * 1s, "power", i));
  const Window window{kReadingsBegin + 100s, kReadingsBegin + 103s};
  EXPECT_THAT(means(series_of(history, "power", 0s, window)), ElementsAre(100, 101, 102));
}

TEST(History, AGpuThatComesAndGoesIsTheSameByItsUuid) {
  History history;
  history.add(reading_with(0s, "power", 1));
  history.add(bare_reading(1s, 0));
  Reading moved = reading_with(2s, "power", 3);
  moved.snapshot.gpus[0].gpu.index = GpuIndex{5};
  moved.snapshot.gpus[0].gpu.name.clear();  // lost: it tells its name no more
  history.add(moved);
  const auto gpus = history.gpus();
  ASSERT_THAT(gpus, SizeIs(1));
  EXPECT_EQ(gpus[0].index, GpuIndex{5});
  EXPECT_EQ(gpus[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(means(series_of(history, "power")), ElementsAre(1, 3));
}

TEST(History, KeepsTheSpanAndAtMostSoManyReadings) {
  History by_span(100s, 100'000);
  History by_count(std::chrono::hours(10), 50);
  for (int i = 0; i < 1000; ++i) {
    by_span.add(reading_with(i * 1s, "power", i));
    by_count.add(reading_with(i * 1s, "power", i));
  }
  EXPECT_THAT(series_of(by_span, "power").points, SizeIs(101));
  EXPECT_EQ(by_span.covers()->from, kReadingsBegin + 899s);
  EXPECT_EQ(by_span.covers()->to, kReadingsBegin + 999s);
  EXPECT_THAT(series_of(by_count, "power").points, SizeIs(50));
  EXPECT_EQ(by_count.covers()->from, kReadingsBegin + 950s);
}

TEST(History, AClockThatIsSetBackDatesBackWhatWasReadBefore) {
  History history;
  for (int i = 0; i < 200; ++i) history.add(reading_with(i * 1s, "power", i));
  Reading later = reading_with(200s, "power", 200);
  later.snapshot.taken_at -= 1h;
  history.add(later);
  const Series series = series_of(history, "power");
  ASSERT_THAT(series.points, SizeIs(201));
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    EXPECT_EQ(series.points[i].time, kReadingsBegin - 1h + static_cast<int>(i) * 1s);
    EXPECT_EQ(series.points[i].mean, static_cast<double>(i));
  }
}

TEST(History, DerivedMetricsAreComputedFromStoredOnes) {
  History history;
  for (int i = 0; i < 200; ++i) {
    Reading reading = bare_reading(i * 1s, 1);
    reading.snapshot.gpus[0].sample.memory_total = Bytes(1000);
    if (i != 5) reading.snapshot.gpus[0].sample.memory_used = Bytes(static_cast<std::uint64_t>(i));
    history.add(reading);
  }
  const Series series = series_of(history, "memory_used_percent");
  ASSERT_THAT(series.points, SizeIs(199)) << "unknown where an input is";
  EXPECT_DOUBLE_EQ(series.points.back().mean, 19.9);
  const Series steps = series_of(history, "memory_used_percent", 10s);
  EXPECT_DOUBLE_EQ(steps.points[1].min, 1.0);
  EXPECT_DOUBLE_EQ(steps.points[1].max, 1.9);
}

TEST(History, UnknownGpusAndMetricsAreSaid) {
  History history;
  EXPECT_EQ(history.covers(), std::nullopt);
  EXPECT_THAT(history.series(Uuid("GPU-x"), "power", kAll, 0s), FailsWith(ErrorCode::not_found, HasSubstr("GPU-x")));
  history.add(bare_reading(0s, 1));
  const auto unknown = history.series(reading_uuid(0), "temprature", kAll, 0s);
  EXPECT_THAT(unknown, FailsWith(ErrorCode::invalid_argument, HasSubstr("temprature")));
  EXPECT_THAT(unknown.error().hint, HasSubstr("'temperature'"));
}

TEST(History, ManyReadWhileOneWrites) {
  History history(1h, 500);
  std::jthread writer([&] {
    for (int i = 0; i < 2000; ++i) history.add(reading_with(i * 1s, "power", i));
  });
  std::vector<std::jthread> readers;
  std::atomic<bool> in_order = true;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto series = history.series(reading_uuid(0), "power", kAll, 0s);
        if (series && !std::ranges::is_sorted(series->points, {}, &Point::mean)) in_order = false;
      }
    });
  }
  readers.clear();
  writer.join();
  EXPECT_TRUE(in_order);
  EXPECT_THAT(series_of(history, "power").points, SizeIs(500));
}

}  // namespace
