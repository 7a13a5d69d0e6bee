// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/profile/profiler.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "support/fake_clock.hpp"

namespace gpuwarden::profile {
namespace {

using namespace std::chrono_literals;
using testing::FakeClock;

class ProfilerTest : public ::testing::Test {
 protected:
  FakeClock clock;
  Profiler profiler{ProfilerOptions{.max_names = 3, .max_events = 8, .clock = &clock}};

  void run(std::string_view name, std::chrono::nanoseconds duration) {
    const Scope scope(name, profiler);
    clock.advance(duration);
  }
  Operation result(std::string_view name) {
    for (auto& operation : profiler.results()) {
      if (operation.name == name) return operation;
    }
    return {};
  }
};

TEST_F(ProfilerTest, SumsUpTheRunsOfAName) {
  run("load", 10ms);
  run("load", 30ms);
  const auto load = result("load");
  EXPECT_EQ(load.wall.count, 2U);
  EXPECT_EQ(load.wall.total, 40ms);
  EXPECT_EQ(load.wall.min, 10ms);
  EXPECT_EQ(load.wall.mean, 20ms);
  EXPECT_EQ(load.wall.max, 30ms);
  EXPECT_EQ(load.self, 40ms);
  EXPECT_FALSE(load.device);
  EXPECT_FALSE(load.joules);
  EXPECT_FALSE(load.memory_change);
}

TEST_F(ProfilerTest, OwnTimeIsWithoutWhatRunsWithin) {
  {
    const Scope step("step", profiler);
    clock.advance(1ms);
    run("forward", 5ms);
    run("backward", 7ms);
  }
  EXPECT_EQ(result("step").wall.total, 13ms);
  EXPECT_EQ(result("step").self, 1ms);
  const auto trace = profiler.trace();
  ASSERT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(trace.events[0].name, "forward");
  EXPECT_EQ(trace.events[0].depth, 1U);
  EXPECT_EQ(trace.events[2].name, "step");
  EXPECT_EQ(trace.events[2].depth, 0U);
}

TEST_F(ProfilerTest, ScopesMayEndInAnyOrder) {
  auto first = std::make_unique<Scope>("first", profiler);
  clock.advance(1ms);
  auto second = std::make_unique<Scope>("second", profiler);
  clock.advance(1ms);
  first.reset();
  clock.advance(1ms);
  second.reset();
  run("after", 1ms);
  EXPECT_EQ(result("first").wall.total, 2ms);
  EXPECT_EQ(result("second").wall.total, 2ms);
  EXPECT_EQ(profiler.trace().events.back().depth, 0U);
}

TEST_F(ProfilerTest, AScopeMayEndOnAnotherThread) {
  auto scope = std::make_unique<Scope>("handed over", profiler);
  clock.advance(3ms);
  std::thread([&] { scope.reset(); }).join();
  EXPECT_EQ(result("handed over").wall.total, 3ms);
}

TEST_F(ProfilerTest, CountsOnceHoweverOftenItIsEnded) {
  Scope scope("once", profiler);
  scope.end();
  scope.end();
  EXPECT_EQ(result("once").wall.count, 1U);
}

TEST_F(ProfilerTest, NothingIsMeasuredWhenOff) {
  profiler.set_enabled(false);
  run("off", 1ms);
  EXPECT_TRUE(profiler.results().empty());
  profiler.set_enabled(true);
  run("on", 1ms);
  EXPECT_EQ(profiler.results().size(), 1U);
}

TEST_F(ProfilerTest, NamesBeyondTheLimitAreSummedUpTogether) {
  for (const auto* name : {"a", "b", "c", "d", "e"}) run(name, 1ms);
  EXPECT_EQ(profiler.results().size(), 4U);
  EXPECT_EQ(result(kOtherNames).wall.count, 2U);
}

TEST_F(ProfilerTest, KeepsTheLatestEventsAndCountsTheLost) {
  for (int i = 0; i < 11; ++i) run("x", std::chrono::milliseconds(i + 1));
  auto trace = profiler.trace();
  ASSERT_EQ(trace.events.size(), 8U);
  EXPECT_EQ(trace.dropped, 3U);
  EXPECT_EQ(trace.events.front().wall, 4ms);
  EXPECT_EQ(trace.events.back().wall, 11ms);
  EXPECT_EQ(result("x").wall.count, 11U);
  profiler.reset();
  EXPECT_TRUE(profiler.results().empty());
  for (int i = 0; i < 3; ++i) run("x", 1ms);
  trace = profiler.trace();
  EXPECT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(trace.dropped, 0U);
}

TEST_F(ProfilerTest, ReadingsTellOfRunsThatLieBetweenThem) {
  const auto hear = [&](Milliwatts power, Percent utilization) {
    const GpuReading reading{.when = clock.now(), .gpu = {}, .utilization = utilization, .power = power};
    profiler.hear({&reading, 1});
  };
  run("before any reading", 1s);
  hear(100_W, 0_pct);
  run("step", 2s);
  EXPECT_EQ(result("step").told, 0U) << "the reading behind it has yet to come";
  hear(300_W, 60_pct);
  const auto step = result("step");
  EXPECT_EQ(step.told, 1U);
  EXPECT_NEAR(step.joules.value(), 400, 1e-6);
  EXPECT_NEAR(step.utilization.value(), 60, 1e-9);
  EXPECT_FALSE(step.memory_peak);
  EXPECT_FALSE(result("before any reading").joules);
  EXPECT_EQ(profiler.trace().readings.size(), 2U);
}

TEST_F(ProfilerTest, MemoryIsWhatIsMoreAfterwards) {
  std::uint64_t allocated = 1000;
  profiler.set_memory([&] { return Bytes(allocated); });
  {
    const Scope scope("grow", profiler);
    allocated += 500;
  }
  {
    const Scope scope("shrink", profiler);
    allocated -= 700;
  }
  EXPECT_EQ(result("grow").memory_change, 500);
  EXPECT_EQ(result("shrink").memory_change, -700);
  const auto json = to_json(profiler.results());
  EXPECT_EQ(json["operations"].size(), 2U);
  EXPECT_TRUE(json["operations"][0]["energy_joules"].is_null());
}

/// A device whose marks are reached when told so, 5 ms apart.
class HandDevice final : public DeviceTimer {
 public:
  Mark mark(StreamHandle stream) override {
    if (stream == 13) return 0;
    const std::scoped_lock lock(mutex_);
    live_.insert(++last_);
    return last_;
  }
  Elapsed elapsed(Mark start, Mark end, bool wait) override {
    if (!reached && !wait) return {.state = State::pending};
    if (broken) return {};
    return {.state = State::done, .time = (end - start) * 5ms};
  }
  void release(Mark mark) override {
    const std::scoped_lock lock(mutex_);
    live_.erase(mark);
  }
  std::size_t live() const { return live_.size(); }
  bool reached = false;
  bool broken = false;

 private:
  std::mutex mutex_;
  Mark last_ = 0;
  std::set<Mark> live_;
};

TEST_F(ProfilerTest, DeviceTimeIsThatBetweenMarks) {
  const auto device = std::make_shared<HandDevice>();
  profiler.set_device(device);
  run("kernel", 1ms);
  {
    const Scope captured("captured", profiler, 13);
    clock.advance(1ms);
  }
  const auto kernel = result("kernel");
  ASSERT_TRUE(kernel.device);
  EXPECT_EQ(kernel.device->total, 5ms);
  EXPECT_FALSE(result("captured").device);
  EXPECT_EQ(profiler.trace().events[0].device, 5ms);
  EXPECT_EQ(device->live(), 0U);
}

TEST_F(ProfilerTest, ADeviceThatIsBehindOrLostLeavesNoMarksBehind) {
  const auto device = std::make_shared<HandDevice>();
  profiler.set_device(device);
  for (int i = 0; i < 10'000; ++i) run("kernel", 1us);
  EXPECT_LE(device->live(), 2U * 8192U);
  EXPECT_EQ(profiler.trace().events.size(), 8U);
  EXPECT_EQ(result("kernel").device->count, 8192U);
  device->broken = true;
  run("lost", 1us);
  EXPECT_FALSE(result("lost").device);
  EXPECT_EQ(device->live(), 0U);
}

TEST_F(ProfilerTest, WhatIsNoLongerSetIsLetGoOfWithTheLastScopeThatUsesIt) {
  auto device = std::make_shared<HandDevice>();
  const std::weak_ptr<HandDevice> known = device;
  profiler.set_device(std::move(device));
  {
    const Scope open("kernel", profiler);
    profiler.set_device(nullptr);
    EXPECT_FALSE(known.expired());
  }
  EXPECT_EQ(result("kernel").device->total, 5ms);
  EXPECT_TRUE(known.expired());
}

/// Notes what begins and ends.
class NotedRanges final : public Ranges {
 public:
  std::uint64_t begin(const char* name) override {
    open_[++last_] = name;
    seen.emplace_back(name);
    return last_;
  }
  void end(std::uint64_t range) override { open_.erase(range); }
  std::size_t open() const { return open_.size(); }
  std::vector<std::string> seen;

 private:
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::string> open_;
};

TEST_F(ProfilerTest, RangesBeginAndEndWithScopes) {
  const auto ranges = std::make_shared<NotedRanges>();
  profiler.set_ranges(ranges);
  {
    const Scope scope("seen", profiler);
    EXPECT_EQ(ranges->open(), 1U);
    profiler.set_ranges(nullptr);
  }
  run("unseen", 1ms);
  EXPECT_EQ(ranges->open(), 0U);
  EXPECT_EQ(ranges->seen, std::vector<std::string>{"seen"});
}

TEST_F(ProfilerTest, AForkedChildIsOffAndDoesNotHang) {
  const Scope open("open", profiler);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool off = !profiler.enabled() && profiler.results().empty() && profiler.trace().events.empty();
    {
      const Scope scope("in the child", profiler);
    }
    Profiler own;
    {
      const Scope scope("in the child", own);
    }
    ::_exit(off && own.results().size() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(profiler.enabled());
}

TEST(ProfilerThreads, NoRunIsLostOrCountedTwice) {
  Profiler profiler({.max_events = 100});
  const auto device = std::make_shared<HandDevice>();
  device->reached = true;
  profiler.set_device(device);
  constexpr int kThreads = 4;
  constexpr int kRuns = 2000;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&profiler, i] {
        for (int run = 0; run < kRuns; ++run) {
          const Scope outer("shared", profiler);
          const Scope inner("own " + std::to_string(i), profiler);
        }
      });
    }
    threads.emplace_back([&profiler] {
      for (int i = 0; i < 50; ++i) {
        const GpuReading reading{.when = system_clock().now(), .gpu = {}, .utilization = 10_pct};
        profiler.hear({&reading, 1});
        (void)profiler.results();
        (void)profiler.trace();
      }
    });
  }
  std::uint64_t own = 0;
  std::uint64_t on_device = 0;
  for (const auto& operation : profiler.results()) {
    if (operation.name != "shared") own += operation.wall.count;
    if (operation.name == "shared") {
      EXPECT_EQ(operation.wall.count, std::uint64_t{kThreads} * kRuns);
    }
    on_device += operation.device->count;
  }
  EXPECT_EQ(own, std::uint64_t{kThreads} * kRuns);
  EXPECT_EQ(on_device, 2U * kThreads * kRuns);
  EXPECT_EQ(device->live(), 0U);
}

TEST(DefaultProfiler, IsOnAndMeasures) {
  {
    const auto scope = profile_operation("default");
  }
  const auto results = default_profiler().results();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].name, "default");
}

}  // namespace
}  // namespace gpuwarden::profile
