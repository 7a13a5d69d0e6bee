// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/status_file.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "support/fleet_builder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

TEST(StatusFile, HasTheJobsOwnGpusAndNullForWhatTheyDoNotTell) {
  facts::Snapshot snapshot = testing::fleet(3);
  snapshot.gpus[1].sample.utilization_gpu = Percent(87);
  snapshot.gpus[1].sample.temperature.reset();
  const json document = json::parse(status_json(snapshot, {{snapshot.gpus[1].gpu.uuid, GpuIndex{1}}}));
  ASSERT_EQ(document["gpus"].size(), 1U);
  EXPECT_EQ(document["gpus"][0]["index"], 1);
  EXPECT_EQ(document["gpus"][0]["utilization_percent"], 87);
  EXPECT_TRUE(document["gpus"][0]["temperature_celsius"].is_null());
  EXPECT_EQ(document["gpus"][0]["usable"], true);
}

TEST(StatusFile, AGpuThatIsLostStaysWhereItWas) {
  facts::Snapshot snapshot = testing::fleet(3);
  const std::vector<StatusGpu> gpus{{snapshot.gpus[0].gpu.uuid, GpuIndex{0}}, {snapshot.gpus[1].gpu.uuid, GpuIndex{1}}};
  snapshot.gpus[1].gpu.uuid = snapshot.gpus[2].gpu.uuid = Uuid("");
  snapshot.gpus[1].state = snapshot.gpus[2].state = facts::GpuState::lost;
  const json rows = json::parse(status_json(snapshot, gpus))["gpus"];
  ASSERT_EQ(rows.size(), 2U) << "the third one is not the job's";
  EXPECT_EQ(rows[0]["usable"], true);
  EXPECT_EQ(rows[1]["index"], 1);
  EXPECT_EQ(rows[1]["usable"], false);
}

TEST(StatusFile, AnotherGpuAtItsPlaceIsNotTakenForIt) {
  facts::Snapshot snapshot = testing::fleet(2);
  const Uuid own = snapshot.gpus[0].gpu.uuid;
  std::swap(snapshot.gpus[0].gpu.uuid, snapshot.gpus[1].gpu.uuid);
  snapshot.gpus[0].state = facts::GpuState::lost;
  const json rows = json::parse(status_json(snapshot, {{own, GpuIndex{0}}}))["gpus"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["index"], 1);
}

TEST(StatusFile, IsWrittenEveryFewSecondsAndAsAWhole) {
  const testing::TempDir dir;
  StatusFile status(dir / "gn1.status");
  telemetry::Reading reading{.snapshot = testing::fleet(1)};
  status.hold({{reading.snapshot.gpus[0].gpu.uuid, GpuIndex{0}}});
  const auto load = [&] {
    return json::parse(read_file(dir / "gn1.status").value_or("{}"))["gpus"][0]["utilization_percent"];
  };
  reading.when = Clock::SteadyTime(1h);
  reading.snapshot.gpus[0].sample.utilization_gpu = Percent(10);
  status.hear(reading);
  EXPECT_EQ(load(), 10);
  reading.when += 1s;
  reading.snapshot.gpus[0].sample.utilization_gpu = Percent(20);
  status.hear(reading);
  EXPECT_EQ(load(), 10) << "not yet";
  reading.when += kStatusPeriod;
  status.hear(reading);
  EXPECT_EQ(load(), 20);
  EXPECT_FALSE(status.problem().has_value());
}

TEST(StatusFile, HasTheGpusOfTheTryThatRuns) {
  const testing::TempDir dir;
  StatusFile status(dir / "gn1.status");
  telemetry::Reading reading{.snapshot = testing::fleet(2), .when = Clock::SteadyTime(1h)};
  const auto index = [&] { return json::parse(read_file(dir / "gn1.status").value_or("{}"))["gpus"][0]["index"]; };
  status.hold({{reading.snapshot.gpus[0].gpu.uuid, GpuIndex{0}}});
  status.hear(reading);
  EXPECT_EQ(index(), 0);
  status.hold({{reading.snapshot.gpus[1].gpu.uuid, GpuIndex{1}}});
  reading.when += kStatusPeriod;
  status.hear(reading);
  EXPECT_EQ(index(), 1);
}

TEST(StatusFile, WhatCannotBeWrittenIsToldAndNotTriedAgain) {
  const testing::TempDir dir;
  StatusFile status(dir / "missing" / "x");
  telemetry::Reading reading{.snapshot = testing::fleet(1), .when = Clock::SteadyTime(1h)};
  status.hear(reading);
  EXPECT_TRUE(status.problem().has_value());
  std::filesystem::create_directory(dir / "missing");
  reading.when += 1h;
  status.hear(reading);
  EXPECT_FALSE(std::filesystem::exists(dir / "missing" / "x"));
}

}  // namespace
}  // namespace gpuwarden::launch
