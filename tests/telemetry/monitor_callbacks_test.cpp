// SPDX-License-Identifier: Apache-2.0
// A monitor's callbacks may stop it, destroy it and take one another away.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include "gpuwarden/telemetry/monitor.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "telemetry/simulated_fleet.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

class MonitorCallbacks : public ::testing::Test {
 protected:
  MonitorOptions options() const {
    MonitorOptions options;
    options.reader = fleet_.reader();
    options.sampler.interval = 100ms;
    options.sampler.events = false;
    return options;
  }
  const SimulatedFleet fleet_{"gpus: [{model: Tesla T4, count: 1}]\n"};
};

TEST_F(MonitorCallbacks, OneThatStopsTheMonitorIsTheLastThatIsHeard) {
  auto with_store = options();
  with_store.store = fleet_.file("history.db");
  PerformanceMonitor monitor(with_store);
  std::atomic<int> heard = 0;
  monitor.add_reading_callback([&](const Reading&) {
    ++heard;
    monitor.stop();
    EXPECT_FALSE(monitor.running());
    EXPECT_THAT(monitor.start(), FailsWith(ErrorCode::unavailable, HasSubstr("callback")));
  });
  ASSERT_THAT(monitor.start(), IsOk());
  ASSERT_TRUE(eventually(kSoon, [&] { return heard > 0 && !monitor.running(); }));
  monitor.stop();
  EXPECT_EQ(heard, 1);
  const auto store = Store::read(fleet_.file("history.db"));
  ASSERT_THAT(store, IsOk());
  EXPECT_TRUE(store->info()->finished) << "it was closed in order";
  ASSERT_THAT(monitor.start(), IsOk()) << "it can be started again";
  EXPECT_TRUE(eventually(kSoon, [&] { return heard == 2; }));
}

TEST_F(MonitorCallbacks, OneMayDestroyTheMonitor) {
  auto monitor = std::make_shared<std::unique_ptr<PerformanceMonitor>>(std::make_unique<PerformanceMonitor>(options()));
  std::atomic<bool> destroyed = false;
  std::atomic<bool> started = false;
  (*monitor)->add_reading_callback([&](const Reading&) {
    eventually(kSoon, [&] { return started.load(); });
    monitor->reset();
    destroyed = true;
  });
  ASSERT_THAT((*monitor)->start(), IsOk());
  started = true;
  ASSERT_TRUE(eventually(kSoon, [&] { return destroyed.load(); }));
  PerformanceMonitor next(options());
  ASSERT_THAT(next.start(), IsOk());
  EXPECT_TRUE(next.wait_for_reading({}, kSoon));
}

TEST_F(MonitorCallbacks, OneThatWasTakenAwayIsNotCalledAnyMore) {
  PerformanceMonitor monitor(options());
  std::atomic<int> first = 0;
  std::atomic<int> second = 0;
  CallbackId own{};
  own = monitor.add_reading_callback([&](const Reading&) {
    ++first;
    EXPECT_TRUE(monitor.remove_callback(own)) << "from itself, too";
  });
  const CallbackId other = monitor.add_reading_callback([&](const Reading&) { ++second; });
  ASSERT_THAT(monitor.start(), IsOk());
  ASSERT_TRUE(eventually(kSoon, [&] { return second >= 2; }));
  EXPECT_EQ(first, 1);
  EXPECT_TRUE(monitor.remove_callback(other));
  EXPECT_FALSE(monitor.remove_callback(other));
  const int then = second;
  const auto reading = monitor.wait_for_reading(monitor.latest()->when, kSoon);
  ASSERT_TRUE(reading);
  ASSERT_TRUE(monitor.wait_for_reading(reading->when, kSoon));
  EXPECT_EQ(second, then);
}

TEST_F(MonitorCallbacks, OneThatThrowsIsLoggedAndTheOthersAreCalled) {
  auto with_log = options();
  std::mutex mutex;
  std::string logged;
  with_log.log = [&](const std::string& line) {
    const std::scoped_lock lock(mutex);
    logged += line + "\n";
  };
  PerformanceMonitor monitor(std::move(with_log));
  std::atomic<int> heard = 0;
  monitor.add_reading_callback([](const Reading&) { throw std::runtime_error("no more paper"); });
  monitor.add_reading_callback([&](const Reading&) { ++heard; });
  ASSERT_THAT(monitor.start(), IsOk());
  EXPECT_TRUE(eventually(kSoon, [&] { return heard >= 2; }));
  monitor.stop();
  EXPECT_THAT(logged, HasSubstr("a callback failed: no more paper"));
}

TEST_F(MonitorCallbacks, WhoWaitsForAReadingIsToldThatTheMonitorStopped) {
  auto slow = options();
  slow.sampler.interval = 10min;
  PerformanceMonitor monitor(slow);
  ASSERT_THAT(monitor.start(), IsOk());
  const auto first = monitor.wait_for_reading({}, kSoon);
  ASSERT_TRUE(first);
  std::jthread stopper([&] { monitor.stop(); });
  EXPECT_EQ(monitor.wait_for_reading(first->when, 5min), nullptr);
}

TEST_F(MonitorCallbacks, SilencesAreListedAndEnded) {
  PerformanceMonitor monitor(options());
  const auto now = std::chrono::system_clock::now();
  ASSERT_THAT(monitor.silence({.rule = "too_hot", .uuid = {}, .until = now + 1h, .by = "ann", .comment = ""}), IsOk());
  ASSERT_THAT(monitor.silence({.rule = "hot", .uuid = {}, .until = now - 1h, .by = "ann", .comment = ""}), IsOk());
  ASSERT_EQ(monitor.silences().size(), 1U);
  EXPECT_EQ(monitor.silences()[0].rule, "too_hot");
  EXPECT_THAT(monitor.silence({.rule = "to_hot", .uuid = {}, .until = now + 1h, .by = "ann", .comment = ""}),
              FailsWith(ErrorCode::not_found, HasSubstr("no alert rule 'to_hot'")));
  EXPECT_EQ(monitor.silences().size(), 1U);
  EXPECT_FALSE(monitor.end_silence("none", {}));
  EXPECT_TRUE(monitor.end_silence("too_hot", {}));
  EXPECT_TRUE(monitor.silences().empty());
}

TEST_F(MonitorCallbacks, AGpuThatIsJudgedUnfitIsToldToOtherProcessesWhileItRuns) {
  auto published = options();
  const lease::HealthPlaces places{fleet_.file("health"), fleet_.file("health")};
  published.publish_health = places;
  published.publish_as = "test";
  PerformanceMonitor monitor(std::move(published));
  ASSERT_THAT(monitor.start(), IsOk());
  ASSERT_TRUE(monitor.wait_for_reading({}, kSoon));
  const auto unfit = [&] { return lease::read_health(places, std::chrono::system_clock::now()).unfit; };
  EXPECT_TRUE(unfit().empty());
  fleet_.sim().fault(0, "lost");
  EXPECT_TRUE(eventually(kSoon, [&] { return unfit().size() == 1; }));
  monitor.stop();
  EXPECT_TRUE(unfit().empty());
}

}  // namespace
}  // namespace gpuwarden::telemetry
