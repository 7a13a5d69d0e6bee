// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/sampler.hpp"

#include <condition_variable>
#include <mutex>

#include "support/fake_clock.hpp"
#include "support/patience.hpp"
#include "telemetry/schedule.hpp"
#include "telemetry/simulated_fleet.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using facts::GpuState;

TEST(Schedule, NothingDriftsAndWhatWasMissedIsLeftOut) {
  const Clock::SteadyTime start(100s);
  EXPECT_EQ(next_reading(start, 1s, start), start + 1s);
  EXPECT_EQ(next_reading(start, 1s, start + 300ms), start + 1s);
  EXPECT_EQ(next_reading(start, 1s, start + 7s + 900ms), start + 8s);
  EXPECT_EQ(next_reading(start, 100ms, start + 2s), start + 2100ms);
  EXPECT_EQ(allowed_interval(1ms), 100ms);
  EXPECT_EQ(allowed_interval(24h), 10min);
  EXPECT_EQ(allowed_interval(5s), 5s);
}

/// Keeps what a sampler hands on.
class Ear {
 public:
  std::function<void(Reading)> hear() {
    return [this](Reading reading) {
      const std::scoped_lock lock(mutex_);
      readings_.push_back(std::move(reading));
      heard_.notify_all();
    };
  }
  /// The first reading for which that holds.
  std::optional<Reading> wait_for(const std::function<bool(const Reading&)>& holds) {
    std::unique_lock lock(mutex_);
    std::optional<Reading> found;
    heard_.wait_for(lock, kSoon, [&] {
      const auto at = std::ranges::find_if(readings_, holds);
      if (at != readings_.end()) found = *at;
      return found.has_value();
    });
    return found;
  }
  bool wait_for_count(std::size_t count) {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, kSoon, [&] { return readings_.size() >= count; });
  }
  std::vector<Reading> all() {
    const std::scoped_lock lock(mutex_);
    return readings_;
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    readings_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::vector<Reading> readings_;
};

SamplerOptions every(std::chrono::milliseconds interval) {
  SamplerOptions options;
  options.interval = interval;
  options.events = false;
  return options;
}

TEST(SamplerTest, EveryReadingIsWholeThoughNotEverythingIsReadEachTime) {
  const SimulatedFleet fleet("driver: 550.54.15\nnvlink: nvswitch\ngpus: [{model: NVIDIA H100 80GB HBM3, count: 2}]\n");
  Ear ear;
  auto options = every(100ms);
  options.links = true;
  Sampler sampler(fleet.reader(), options, {}, ear.hear(), system_clock());
  ASSERT_TRUE(ear.wait_for_count(4));
  sampler.stop();
  for (const Reading& reading : ear.all()) {
    ASSERT_FALSE(reading.snapshot.problem);
    ASSERT_EQ(reading.snapshot.gpus.size(), 2U);
    EXPECT_TRUE(reading.snapshot.links) << "the topology is read once and goes with each reading";
    for (const auto& record : reading.snapshot.gpus) {
      EXPECT_EQ(record.gpu.name, "NVIDIA H100 80GB HBM3");
      EXPECT_TRUE(record.gpu.temperature_slowdown);
      EXPECT_TRUE(record.sample.power);
      EXPECT_EQ(record.sample.ecc_uncorrected_volatile, Count(0)) << "read seldom, but there each time";
      EXPECT_EQ(record.sample.nvlinks.size(), 18U);
    }
  }
}

TEST(SamplerTest, AQuickReadingMayGoBeforeTheFirstWholeOne) {
  const SimulatedFleet fleet("driver: 550.54.15\nnvlink: nvswitch\ngpus: [{model: NVIDIA H100 80GB HBM3, count: 2}]\n");
  Ear ear;
  auto options = every(10min);
  options.quick_first = true;
  options.detail = probe::Detail::slow;
  Sampler sampler(fleet.reader(), options, {}, ear.hear(), system_clock());
  ASSERT_TRUE(ear.wait_for_count(2)) << "the whole one does not wait for its interval";
  sampler.stop();
  const auto readings = ear.all();
  for (const Reading& reading : readings) {
    ASSERT_EQ(reading.snapshot.gpus.size(), 2U);
    EXPECT_TRUE(reading.snapshot.gpus[0].sample.memory_used);
    EXPECT_TRUE(reading.snapshot.gpus[0].sample.temperature);
  }
  EXPECT_FALSE(readings[0].snapshot.gpus[0].sample.pcie_received) << "that takes 20 ms";
  EXPECT_TRUE(readings[1].snapshot.gpus[0].sample.pcie_received);
  EXPECT_EQ(readings[1].snapshot.gpus[1].sample.nvlinks.size(), 18U);
  EXPECT_TRUE(readings[1].snapshot.gpus[1].sample.ecc_uncorrected_volatile);
}

TEST(SamplerTest, ReadingsBeginAtTheirTimesAndOneMayComeBetween) {
  const SimulatedFleet fleet("gpus: [{model: Tesla T4}]\n");
  Ear ear;
  Sampler sampler(fleet.reader(), every(10min), {}, ear.hear(), system_clock());
  ASSERT_TRUE(ear.wait_for_count(1));
  sampler.read_now();
  ASSERT_TRUE(ear.wait_for_count(2));
  sampler.set_interval(100ms);
  ASSERT_TRUE(ear.wait_for_count(6));
  sampler.stop();
  const std::size_t count = ear.all().size();
  EXPECT_FALSE(eventually(300ms, [&] { return ear.all().size() > count; })) << "nothing is heard after stop()";
}

TEST(SamplerTest, ADayPassesAtOnceOnAClockThatIsHandedIn) {
  const SimulatedFleet fleet("gpus: [{model: Tesla T4}]\n");
  FakeClock clock;
  const auto begin = clock.now();
  Ear ear;
  Sampler sampler(fleet.reader(), every(10min), {}, ear.hear(), clock);
  ASSERT_TRUE(ear.wait_for([&](const Reading& reading) { return reading.when - begin >= 24h; }));
  sampler.stop();
  const auto readings = ear.all();
  for (std::size_t i = 0; i < 144; ++i) {
    EXPECT_EQ(readings[i].when, begin + i * 10min);
    EXPECT_EQ(readings[i].snapshot.taken_at - readings[0].snapshot.taken_at, i * 10min);
  }
}

TEST(SamplerTest, AGpuThatHangsDoesNotKeepTheOthersFromBeingRead) {
  const SimulatedFleet fleet("gpus: [{model: Tesla T4, count: 3}]\n");
  Ear ear;
  Sampler sampler(fleet.reader(), every(200ms), {}, ear.hear(), system_clock());
  ASSERT_TRUE(ear.wait_for_count(2));
  const Uuid hung = ear.all()[0].snapshot.gpus[1].gpu.uuid;
  fleet.sim().fault(1, "hang");
  const auto silent = [](const Reading& reading) {
    return reading.snapshot.gpus.size() == 3 && reading.snapshot.gpus[1].state == GpuState::not_answering;
  };
  const auto first = ear.wait_for(silent);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->snapshot.gpus[1].gpu.uuid, hung) << "who hangs is known from before";
  EXPECT_FALSE(first->snapshot.gpus[1].sample.power) << "what it read before is not told as its present";
  EXPECT_EQ(first->snapshot.gpus[0].state, GpuState::available);
  EXPECT_TRUE(first->snapshot.gpus[2].sample.power);
  ear.forget();
  ASSERT_TRUE(ear.wait_for_count(5)) << "readings go on, though the reader's timeout is far away";
  for (const Reading& reading : ear.all()) EXPECT_TRUE(silent(reading));
}

TEST(SamplerTest, ItStopsAtOnceWhileTheDriverHangs) {
  const SimulatedFleet fleet("faults: [hang_init]\ngpus: [{model: Tesla T4}]\n");
  Ear ear;
  auto reader = fleet.reader();
  reader.timeout = 10min;
  Sampler sampler(reader, every(1s), {}, ear.hear(), system_clock());
  EXPECT_FALSE(eventually(200ms, [&] { return !ear.all().empty(); }));
  sampler.stop();  // ctest ends a test that waits for ten minutes
  EXPECT_TRUE(ear.all().empty());
}

TEST(SamplerTest, AnXidComesWithAReadingOfItsOwn) {
  const SimulatedFleet fleet("gpus: [{model: Tesla T4, count: 2}]\n");
  Ear ear;
  auto options = every(10min);
  options.events = true;
  Sampler sampler(fleet.reader(), options, {}, ear.hear(), system_clock());
  ASSERT_TRUE(ear.wait_for_count(1));
  const auto told = [](const Reading& reading) { return !reading.events.empty(); };
  // Watching begins beside the first reading; what happens before that is told to nobody.
  std::optional<Reading> reading;
  ASSERT_TRUE(eventually(kSoon, [&] {
    fleet.sim().fault(1, "xid=31");
    return eventually(1s, [&] { return std::ranges::any_of(ear.all(), told); });
  }));
  reading = ear.wait_for(told);
  EXPECT_EQ(reading->events[0].kind, facts::GpuEventKind::xid);
  EXPECT_EQ(reading->events[0].data, 31U);
  EXPECT_EQ(reading->events[0].uuid, reading->snapshot.gpus[1].gpu.uuid);
}

TEST(SamplerTest, LeasesAreAskedForWithEachReading) {
  const SimulatedFleet fleet("gpus: [{model: Tesla T4}]\n");
  Ear ear;
  const auto leases = [](const facts::Snapshot& snapshot) {
    return std::vector<facts::Lease>{{snapshot.gpus.at(0).gpu.uuid, false, {}}};
  };
  Sampler sampler(fleet.reader(), every(100ms), leases, ear.hear(), system_clock());
  ASSERT_TRUE(ear.wait_for_count(2));
  sampler.stop();
  EXPECT_EQ(ear.all()[1].leases.size(), 1U);
}

}  // namespace
}  // namespace gpuwarden::telemetry
