// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/monitor.hpp"

#include <atomic>
#include <mutex>

#include "gpuwarden/base/file.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "telemetry/simulated_fleet.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using facts::HealthState;
using ::testing::HasSubstr;

class Monitored : public ::testing::Test {
 protected:
  MonitorOptions options() const {
    MonitorOptions options;
    options.reader = fleet_.reader();
    options.sampler.interval = 100ms;
    options.sampler.events = false;
    return options;
  }
  static AlertConfig rule(const std::string& when) {
    AlertConfig config;
    auto parsed = parse_alert_rules("rules: [{id: told, when: '" + when + "'}]\nbuilt_in: false\n", "rules.yaml");
    EXPECT_THAT(parsed, IsOk());
    return parsed.value_or(config);
  }
  static bool has_alert(const PerformanceMonitor& monitor) { return !monitor.alerts().empty(); }

  const SimulatedFleet fleet_{"gpus: [{model: Tesla T4, count: 2, workload: {kind: training, memory: 4GiB}}]\n"};
};

TEST_F(Monitored, WhatWasReadCanBeAskedForAfterwards) {
  PerformanceMonitor monitor(options());
  EXPECT_EQ(monitor.latest(), nullptr);
  ASSERT_THAT(monitor.start(), IsOk());
  EXPECT_TRUE(monitor.running());
  EXPECT_THAT(monitor.start(), FailsWith(ErrorCode::unavailable, HasSubstr("running already")));
  const auto first = monitor.wait_for_reading({}, kSoon);
  ASSERT_TRUE(first);
  std::shared_ptr<const Reading> later = first;
  for (int i = 0; i < 4; ++i) {
    later = monitor.wait_for_reading(later->when, kSoon);
    ASSERT_TRUE(later);
  }
  EXPECT_GE(later->when - first->when, 400ms);
  monitor.stop();
  monitor.stop();
  EXPECT_FALSE(monitor.running());
  const Uuid gpu = later->snapshot.gpus.at(0).gpu.uuid;
  EXPECT_EQ(monitor.latest()->snapshot.gpus.size(), 2U);
  const auto statistics = monitor.statistics(gpu, "temperature", 1h);
  ASSERT_THAT(statistics, IsOk());
  ASSERT_TRUE(*statistics);
  EXPECT_GE((*statistics)->readings, 5U);
  EXPECT_GT((*statistics)->min, 10);
  const auto now = std::chrono::system_clock::now();
  const auto energy = monitor.energy(gpu, {now - 1h, now + 1s});
  ASSERT_THAT(energy, IsOk());
  EXPECT_TRUE(*energy);
  EXPECT_THAT(monitor.statistics(gpu, "temprature", 1h), FailsWith(ErrorCode::invalid_argument, HasSubstr("")));
  EXPECT_THAT(monitor.statistics(Uuid("GPU-none"), "power", 1h), FailsWith(ErrorCode::not_found, HasSubstr("")));
}

TEST_F(Monitored, ALostGpuIsToldToHealthAndAlertListeners) {
  auto with_rule = options();
  with_rule.alerts = rule("temperature > 0");
  PerformanceMonitor monitor(std::move(with_rule));
  std::mutex mutex;
  std::vector<HealthChange> health;
  std::vector<AlertChange> alerts;
  std::atomic<int> readings = 0;
  monitor.add_health_callback([&](const HealthChange& change) {
    EXPECT_FALSE(monitor.health().empty()) << "callbacks may ask the monitor";
    const std::scoped_lock lock(mutex);
    health.push_back(change);
  });
  monitor.add_alert_callback([&](const AlertChange& change) {
    const std::scoped_lock lock(mutex);
    alerts.push_back(change);
  });
  monitor.add_reading_callback([&](const Reading&) {
    EXPECT_TRUE(monitor.running());
    ++readings;
  });
  ASSERT_THAT(monitor.start(), IsOk());
  ASSERT_TRUE(eventually(kSoon, [&] { return readings > 1; }));
  fleet_.sim().fault(1, "lost");
  EXPECT_TRUE(eventually(kSoon, [&] {
    const std::scoped_lock lock(mutex);
    return std::ranges::any_of(health, [](const HealthChange& change) {
      return change.now.state == HealthState::error && change.now.index == GpuIndex{1};
    });
  }));
  EXPECT_EQ(monitor.health().at(1).state, HealthState::error);
  const std::scoped_lock lock(mutex);
  ASSERT_FALSE(alerts.empty());
  EXPECT_EQ(alerts[0].alert.rule, "told");
  EXPECT_FALSE(monitor.alert_log().empty());
  const auto now = std::chrono::system_clock::now();
  const auto happened = monitor.happenings({now - 1h, now + 1h});
  EXPECT_TRUE(std::ranges::any_of(happened, [](const Happening& one) { return one.kind == "health"; }));
}

TEST_F(Monitored, WhoIsDisabledIsNotFit) {
  auto some = options();
  some.disabled = [] { return std::vector<facts::Disabling>{}; };
  PerformanceMonitor monitor(some);
  ASSERT_THAT(monitor.start(), IsOk());
  const auto reading = monitor.wait_for_reading({}, kSoon);
  ASSERT_TRUE(reading);
  monitor.stop();
  const Uuid gpu = reading->snapshot.gpus.at(0).gpu.uuid;
  some.disabled = [gpu] { return std::vector<facts::Disabling>{{gpu, "loud", "root", true, {}}}; };
  PerformanceMonitor other(some);
  ASSERT_THAT(other.start(), IsOk());
  ASSERT_TRUE(other.wait_for_reading({}, kSoon));
  EXPECT_EQ(other.health().at(0).state, HealthState::disabled);
  EXPECT_NE(other.health().at(1).state, HealthState::disabled);
}

TEST_F(Monitored, AcknowledgedAlertsAndSilencesOutliveTheMonitor) {
  auto kept = options();
  kept.alerts = rule("temperature > 0");
  kept.state = fleet_.file("alerts.json");
  std::uint64_t id = 0;
  {
    PerformanceMonitor monitor(kept);
    ASSERT_THAT(monitor.start(), IsOk());
    ASSERT_TRUE(eventually(kSoon, [&] { return has_alert(monitor); }));
    id = monitor.alerts()[0].id;
    EXPECT_THAT(monitor.acknowledge(id, "ann"), IsOk());
    EXPECT_THAT(monitor.acknowledge(4711, "ann"), FailsWith(ErrorCode::not_found, HasSubstr("4711")));
  }
  PerformanceMonitor monitor(kept);
  ASSERT_THAT(monitor.start(), IsOk());
  const auto alerts = monitor.alerts();
  ASSERT_FALSE(alerts.empty());
  EXPECT_TRUE(std::ranges::any_of(
      alerts, [&](const Alert& alert) { return alert.id == id && alert.acknowledged_by == "ann"; }));
}

TEST_F(Monitored, ADamagedStateIsRefusedAndNamed) {
  auto kept = options();
  kept.state = fleet_.file("alerts.json");
  put(kept.state, "{\"schema\": 1, \"alerts\"");
  EXPECT_THAT(PerformanceMonitor(kept).start(), FailsWith(ErrorCode::corrupt, HasSubstr("alerts.json")));
  put(kept.state, "{\"schema\": 99, \"alerts\": {}}");
  EXPECT_THAT(PerformanceMonitor(kept).start(), FailsWith(ErrorCode::corrupt, HasSubstr("another version")));
  put(kept.state, "{\"schema\": \"1\", \"alerts\": {}}");
  EXPECT_THAT(PerformanceMonitor(kept).start(), FailsWith(ErrorCode::corrupt, HasSubstr("another version")));
}

TEST_F(Monitored, TheStoreHoldsWhatMemoryDoesNot) {
  auto kept = options();
  kept.store = fleet_.file("history.db");
  Uuid gpu;
  {
    PerformanceMonitor monitor(kept);
    ASSERT_THAT(monitor.start(), IsOk());
    auto reading = monitor.wait_for_reading({}, kSoon);
    ASSERT_TRUE(reading);
    for (int i = 0; i < 3; ++i) reading = monitor.wait_for_reading(reading->when, kSoon);
    gpu = reading->snapshot.gpus.at(0).gpu.uuid;
  }
  PerformanceMonitor monitor(kept);
  ASSERT_THAT(monitor.start(), IsOk());
  const auto now = std::chrono::system_clock::now();
  const auto series = monitor.history(gpu, "temperature", {now - 1h, now + 1h});
  ASSERT_THAT(series, IsOk());
  EXPECT_GE(series->points.size(), 3U) << "from the run before";
}

TEST_F(Monitored, WhoUsedTheGpusIsStoredWhenItStops) {
  auto kept = options();
  kept.leases = [](const facts::Snapshot& snapshot) {
    std::vector<facts::Lease> leases;
    for (const auto& record : snapshot.gpus) {
      facts::Lease& lease = leases.emplace_back();
      lease.uuid = record.gpu.uuid;
      lease.holders.emplace_back().user = "ann";
    }
    return leases;
  };
  kept.store = fleet_.file("history.db");
  {
    PerformanceMonitor monitor(kept);
    ASSERT_THAT(monitor.start(), IsOk());
    auto reading = monitor.wait_for_reading({}, kSoon);
    ASSERT_TRUE(reading);
    for (int i = 0; i < 3; ++i) reading = monitor.wait_for_reading(reading->when, kSoon);
    ASSERT_TRUE(reading);
  }
  auto store = Store::read(kept.store);
  ASSERT_THAT(store, IsOk());
  const auto now = std::chrono::system_clock::now();
  const auto uses = store->uses({now - 1h, now + 1h});
  ASSERT_THAT(uses, IsOk());
  EXPECT_GE(uses->size(), 2U) << "one of each GPU, though its minute is not over";
}

TEST_F(Monitored, NoRulesAreNoAlerts) {
  auto silent = options();
  const auto none = parse_alert_rules("built_in: false\n", "rules.yaml");
  ASSERT_THAT(none, IsOk());
  silent.alerts = *none;
  PerformanceMonitor monitor(std::move(silent));
  ASSERT_THAT(monitor.start(), IsOk());
  ASSERT_TRUE(monitor.wait_for_reading({}, kSoon));
  fleet_.sim().fault(1, "lost");
  EXPECT_TRUE(eventually(kSoon, [&] { return monitor.health().at(1).state == HealthState::error; }));
  EXPECT_TRUE(monitor.alert_log().empty());
}

TEST_F(Monitored, OtherRulesHoldFromTheNextReadingOn) {
  auto with_rule = options();
  with_rule.alerts = rule("temperature > 0");
  PerformanceMonitor monitor(std::move(with_rule));
  ASSERT_THAT(monitor.start(), IsOk());
  ASSERT_TRUE(eventually(kSoon, [&] { return has_alert(monitor); }));
  monitor.set_alerts(rule("temperature > 1000"));
  EXPECT_TRUE(eventually(kSoon, [&] { return !has_alert(monitor); }));
}

}  // namespace
}  // namespace gpuwarden::telemetry
