// SPDX-License-Identifier: Apache-2.0
// A clock that somebody sets: what lasts, what is remembered and what is stored do not follow it.
#include <gmock/gmock.h>

#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/store.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"
#include "telemetry/readings.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::SizeIs;

constexpr Window kEver{WallTime{}, WallTime::max()};

/// A reading `after` the begin by the clock that nobody sets, dated `set` later than that.
Reading dated(std::chrono::milliseconds after, std::chrono::milliseconds set, double power = 100) {
  Reading reading = reading_with(after, "power", power);
  reading.snapshot.taken_at += set;
  return reading;
}

AlertBook book_with(const std::string& rule) {
  auto config = parse_alert_rules("rules: [" + rule + "]\nbuilt_in: false\n", "rules.yaml");
  EXPECT_THAT(config, IsOk());
  return AlertBook(config ? config->rules : std::vector<AlertRule>{});
}

TEST(SetClock, ForwardBeginsNoAlertBeforeItsTime) {
  AlertBook book = book_with("{id: high, when: 'power > 50', for: 30s}");
  EXPECT_THAT(book.judge(dated(0s, 0s)), SizeIs(0));
  for (int i = 1; i < 30; ++i) EXPECT_THAT(book.judge(dated(i * 1s, 24h)), SizeIs(0)) << i;
  EXPECT_THAT(book.judge(dated(30s, 24h)), SizeIs(1));
}

TEST(SetClock, ForwardEndsNoAlertBeforeItsTimeAndRepeatsNone) {
  AlertBook book = book_with("{id: high, when: 'power > 50', for: 0s, clear_for: 1m, repeat: 10m}");
  ASSERT_THAT(book.judge(dated(0s, 0s)), SizeIs(1));
  EXPECT_THAT(book.judge(dated(1s, 24h)), SizeIs(0)) << "it is not told again before its time";
  for (int i = 2; i < 62; ++i) EXPECT_THAT(book.judge(dated(i * 1s, i * 24h, 10)), SizeIs(0)) << i;
  const auto ended = book.judge(dated(62s, 90 * 24h, 10));
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].kind, AlertChange::Kind::ended);
}

TEST(SetClock, BackDoesNotMakeAnAlertLate) {
  AlertBook book = book_with("{id: high, when: 'power > 50', for: 30s}");
  EXPECT_THAT(book.judge(dated(0s, 0s)), SizeIs(0));
  for (int i = 1; i < 30; ++i) EXPECT_THAT(book.judge(dated(i * 1s, -2h)), SizeIs(0)) << i;
  EXPECT_THAT(book.judge(dated(30s, -2h)), SizeIs(1));
}

TEST(SetClock, ForwardDatesWhatMemoryHoldsAnewAndForgetsNothing) {
  History history(1h);
  for (int i = 0; i < 300; ++i) history.add(dated(i * 1s, 0s, i));
  for (int i = 300; i < 310; ++i) history.add(dated(i * 1s, 24h, i));
  auto series = history.series(reading_uuid(0), "power", kEver, 0s);
  ASSERT_THAT(series, IsOk());
  ASSERT_THAT(series->points, SizeIs(310));
  EXPECT_EQ(series->points[0].time, kReadingsBegin + 24h);
  // Set right again, everything is dated as if nothing had been.
  for (int i = 310; i < 320; ++i) history.add(dated(i * 1s, 0s, i));
  series = history.series(reading_uuid(0), "power", kEver, 0s);
  ASSERT_THAT(series, IsOk());
  ASSERT_THAT(series->points, SizeIs(320));
  EXPECT_EQ(series->points[0].time, kReadingsBegin);
  EXPECT_EQ(series->points[319].time, kReadingsBegin + 319s);
}

class SetClockStore : public ::testing::Test {
 protected:
  Store open() {
    auto store = Store::open(dir_ / "history.db", {}, {}, clock_);
    EXPECT_THAT(store, IsOk());
    return std::move(*store);
  }
  static std::vector<Point> points(const Store& store) {
    auto series = store.series(reading_uuid(0), "power", kEver, 0s);
    EXPECT_THAT(series, IsOk());
    return series ? series->points : std::vector<Point>{};
  }
  TempDir dir_;
  FakeClock clock_;
};

TEST_F(SetClockStore, AReadingFarAheadDoesNotHoldTheStore) {
  Store store = open();
  for (int i = 0; i < 100; ++i) ASSERT_THAT(store.add(dated(i * 1s, 0s, i)), IsOk());
  for (int i = 100; i < 105; ++i) ASSERT_THAT(store.add(dated(i * 1s, 24h * 365 * 5, i)), IsOk());
  for (int i = 105; i < 200; ++i) ASSERT_THAT(store.add(dated(i * 1s, 0s, i)), IsOk());
  const auto all = points(store);
  ASSERT_THAT(all, SizeIs(195)) << "what was dated wrongly is forgotten, and nothing else";
  EXPECT_EQ(all.front().time, kReadingsBegin);
  EXPECT_EQ(all.back().time, kReadingsBegin + 199s);
  EXPECT_EQ(all.back().mean, 199);
}

TEST_F(SetClockStore, ItIsLetGoAfterARestartToo) {
  {
    Store store = open();
    for (int i = 0; i < 100; ++i) ASSERT_THAT(store.add(dated(i * 1s, 0s, i)), IsOk());
    ASSERT_THAT(store.add(dated(100s, 24h * 365, 100)), IsOk());
  }
  Store store = open();
  for (int i = 200; i < 300; ++i) ASSERT_THAT(store.add(dated(i * 1s, 0s, i)), IsOk());
  const auto all = points(store);
  ASSERT_THAT(all, SizeIs(200));
  EXPECT_EQ(all.back().time, kReadingsBegin + 299s);
}

TEST_F(SetClockStore, AClockThatIsSetFarBackLosesNothing) {
  Store store = open();
  for (int i = 0; i < 8000; i += 10) ASSERT_THAT(store.add(dated(i * 1s, 0s, i)), IsOk());
  for (int i = 8000; i < 8100; i += 10) ASSERT_THAT(store.add(dated(i * 1s, -2h, i)), IsOk());
  const auto all = points(store);
  ASSERT_THAT(all, SizeIs(810));
  EXPECT_EQ(all.back().time - all[799].time, 100s) << "they go on at full pace";
}

TEST_F(SetClockStore, DerivedMetricsKnowTheThresholdsOfTheGpu) {
  {
    Store store = open();
    Reading reading = reading_with(0s, "temperature", 60);
    reading.snapshot.gpus[0].gpu.temperature_slowdown = Celsius(87);
    ASSERT_THAT(store.add(reading), IsOk());
    ASSERT_THAT(store.finish(), IsOk());
  }
  const auto store = Store::read(dir_ / "history.db");
  ASSERT_THAT(store, IsOk());
  const auto series = store->series(reading_uuid(0), "temperature_headroom", kEver, 0s);
  ASSERT_THAT(series, IsOk());
  ASSERT_THAT(series->points, SizeIs(1));
  EXPECT_EQ(series->points[0].mean, 27);
}

TEST_F(SetClockStore, ManyProcessesOfOneHourAreMergedInPartsAndNoTimeIsLost) {
  Store store = open();
  std::vector<Use> uses;
  for (int i = 0; i < 5000; ++i) {
    Use use;
    use.user = "ann";
    use.pid = Pid{i};
    use.gpu = reading_uuid(0);
    use.from = kReadingsBegin;
    use.to = use.from + 1min;
    use.gpu_seconds = 1;
    uses.push_back(use);
  }
  ASSERT_THAT(store.add(dated(0s, 0s), uses), IsOk());
  ASSERT_THAT(store.add(dated(48h, 0s)), IsOk());
  ASSERT_THAT(store.maintain(), IsOk());
  const auto kept = store.uses(kEver);
  ASSERT_THAT(kept, IsOk());
  double seconds = 0;
  for (const Use& use : *kept) seconds += use.gpu_seconds;
  EXPECT_DOUBLE_EQ(seconds, 5000);
}

TEST(DerivedInputs, AreAllThatADerivedMetricIsComputedFrom) {
  BusyFleet fleet(1);
  facts::GpuRecord whole = fleet.next(1s).snapshot.gpus[0];
  whole.gpu.temperature_slowdown = Celsius(87);
  whole.gpu.pcie_width_max = whole.gpu.pcie_generation_max = Count(16);
  whole.sample.pcie_width = whole.sample.pcie_generation = Count(8);
  whole.sample.bar1_total = whole.sample.bar1_used = Bytes(1024);
  whole.processes.reset();
  int known = 0;
  for (const DerivedMetric& derived : derived_metrics()) {
    facts::GpuRecord part = whole;
    part.sample = {};
    for (const std::string_view input : derived.inputs) {
      if (input.empty()) continue;
      const auto* metric = facts::find_metric(input);
      ASSERT_NE(metric, nullptr) << derived.id << " names " << input;
      facts::set_value(*metric, part.sample, facts::value_of(*metric, whole.sample));
    }
    EXPECT_EQ(derived.value(part), derived.value(whole)) << derived.id;
    if (derived.value(whole)) ++known;
  }
  EXPECT_GE(known, 5);
}

}  // namespace
}  // namespace gpuwarden::telemetry
