// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/profile/trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace gpuwarden::profile {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr auto kBegan = std::chrono::seconds(1'700'000'000);

Event event(std::string name, std::chrono::microseconds start, std::chrono::microseconds wall,
            std::int64_t thread = 7) {
  return {.name = std::move(name), .start = Clock::SteadyTime(start), .wall = wall, .thread = thread};
}

Trace trace_of(std::vector<Event> events) {
  return {.process = 7,
          .steady_origin = Clock::SteadyTime(0s),
          .wall_origin = Clock::WallTime(kBegan),
          .events = std::move(events)};
}

Json read(const Trace& trace, std::string_view foreign = {}) {
  const auto text = chrome_trace(trace, foreign);
  EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().message);
  return Json::parse(text.value_or("{}"));
}

Json named(const Json& trace, std::string_view name) {
  for (const auto& entry : trace["traceEvents"]) {
    if (entry.value("name", "") == name) return entry;
  }
  return {};
}

TEST(ChromeTrace, AnEventHasWhatPerfettoNeeds) {
  auto timed = event("forward \"1\"\n\xff", 1500us, 250us);
  timed.device = 200us;
  const Json trace = read(trace_of({timed}));
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  const Json& found = trace["traceEvents"].back();
  EXPECT_EQ(found["ph"], "X");
  EXPECT_EQ(found["ts"], 1500.0);
  EXPECT_EQ(found["dur"], 250.0);
  EXPECT_EQ(found["pid"], 7);
  EXPECT_EQ(found["tid"], 7);
  EXPECT_EQ(found["args"]["device_us"], 200.0);
  EXPECT_TRUE(found["name"].get<std::string>().starts_with("forward \"1\"\n"));
  EXPECT_EQ(named(trace, "thread_name")["args"]["name"], "main thread 7");
}

TEST(ChromeTrace, IsValidWithoutEvents) { EXPECT_TRUE(read(trace_of({}))["traceEvents"].is_array()); }

TEST(ChromeTrace, ReadingsAreCountersOfTheirGpu) {
  Trace trace = trace_of({});
  trace.readings.push_back({.when = Clock::SteadyTime(2ms),
                            .gpu = GpuIndex{3},
                            .utilization = 50_pct,
                            .memory_used = 2_GiB,
                            .power = 300_W});
  const Json json = read(trace);
  EXPECT_EQ(named(json, "utilization (%)")["args"]["value"], 50);
  EXPECT_EQ(named(json, "memory used (MiB)")["args"]["value"], 2048);
  const Json power = named(json, "power (W)");
  EXPECT_EQ(power["args"]["value"], 300);
  EXPECT_EQ(power["ph"], "C");
  EXPECT_EQ(power["ts"], 2000.0);
}

TEST(ChromeTrace, EventsOfEveryRowNest) {
  std::mt19937 random(3);
  std::vector<Event> events;
  for (int i = 0; i < 400; ++i)
    events.push_back(event("x", std::chrono::microseconds(random() % 1000), std::chrono::microseconds(random() % 60),
                           static_cast<std::int64_t>(random() % 3)));
  std::map<std::int64_t, std::vector<double>> open;
  unsigned count = 0;
  const Json trace = read(trace_of(events));
  for (const auto& entry : trace["traceEvents"]) {
    if (entry["ph"] != "X") continue;
    ++count;
    auto& ends = open[entry["tid"].get<std::int64_t>()];
    const double start = entry["ts"];
    const double end = start + entry["dur"].get<double>();
    while (!ends.empty() && ends.back() <= start) ends.pop_back();
    if (!ends.empty()) {
      EXPECT_LE(end, ends.back());
    }
    ends.push_back(end);
  }
  EXPECT_EQ(count, 400U);
}

TEST(ChromeTrace, KinetosEventsComeOnTheSameClock) {
  const Json kineto = {
      {"schemaVersion", 1},
      {"baseTimeNanoseconds", std::chrono::nanoseconds(kBegan + 1s).count()},
      {"traceEvents", {{{"ph", "X"}, {"name", "aten::mm"}, {"ts", 250.5}, {"dur", 3.0}, {"pid", 7}, {"tid", 7}}}}};
  const Json trace = read(trace_of({event("step", 0us, 10us)}), kineto.dump());
  EXPECT_NEAR(named(trace, "aten::mm")["ts"].get<double>(), 1'000'250.5, 0.2);
  EXPECT_EQ(named(trace, "aten::mm")["pid"], 7);
  EXPECT_NE(named(trace, "step")["pid"], 7) << "two profilers' events need not nest in each other";
}

TEST(ChromeTrace, OlderTracesCountFrom1970OrFromTheFirstOperation) {
  const double in_1970 = std::chrono::duration<double, std::micro>(kBegan + 2s).count();
  const Json absolute = {{"traceEvents", {{{"ph", "X"}, {"name", "old"}, {"ts", in_1970}, {"dur", 1}}}}};
  EXPECT_NEAR(named(read(trace_of({}), absolute.dump()), "old")["ts"].get<double>(), 2e6, 1);
  // PyTorch 1.13 without Kineto: a bare list.
  const Json bare = {{{"ph", "X"}, {"name", "first"}, {"ts", 40}, {"dur", 1}},
                     {{"ph", "X"}, {"name", "second"}, {"ts", 50}}};
  const Json trace = read(trace_of({event("step", 700us, 10us)}), bare.dump());
  EXPECT_NEAR(named(trace, "first")["ts"].get<double>(), 700, 1e-6);
  EXPECT_NEAR(named(trace, "second")["ts"].get<double>(), 710, 1e-6);
}

TEST(ChromeTrace, WhatIsNoTraceIsRefused) {
  for (const auto* text : {"{", "3", "{\"a\":1}", "{\"traceEvents\":{}}"}) {
    const auto result = chrome_trace(trace_of({}), text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::corrupt) << text;
  }
  EXPECT_TRUE(chrome_trace(trace_of({}), R"([3, null, {"ph":"X"}, {"ts":"soon"}])"));
}

}  // namespace
}  // namespace gpuwarden::profile
