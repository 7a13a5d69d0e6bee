// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/fleets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "machine/simulated.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using ::testing::Contains;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;

using Fleets = testing::Machines;

TEST_F(Fleets, ThePresetsAreListedWithTheirGpus) {
  const auto list = list_fleets(options().simulator);
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(list->running, IsEmpty());
  const auto found = std::ranges::find(list->presets, "h100x8", &FleetPreset::name);
  ASSERT_NE(found, list->presets.end());
  EXPECT_EQ(found->gpus.size(), 8U);
  const auto json = to_json(*list);
  EXPECT_EQ(json["schema"], facts::kJsonSchema);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["presets"].size(), list->presets.size());
  EXPECT_EQ(json["presets"][static_cast<std::size_t>(found - list->presets.begin())]["driver"], found->driver);
  EXPECT_EQ(json["running"], nlohmann::json::array());
}

TEST_F(Fleets, AStartedFleetRunsUntilItIsStopped) {
  const auto keeper = start_fleet("lab", "t4x1", options().simulator);
  ASSERT_THAT(keeper, IsOk());
  EXPECT_THAT(list_fleets(options().simulator)->running, Contains("lab"));
  {
    const auto fleet = open_running_fleet("lab", options());
    ASSERT_THAT(fleet, IsOk());
    EXPECT_EQ(fleet->read().gpus.size(), 1U);
    // Its parent is this test, which does not wait for it: it stays as a zombie, which counts as ended here.
    std::signal(SIGCHLD, SIG_IGN);
    EXPECT_THAT(stop_fleet(*fleet, system_clock()), IsOk());
    std::signal(SIGCHLD, SIG_DFL);
    EXPECT_THAT(stop_fleet(*fleet, system_clock()), FailsWith(ErrorCode::failed, HasSubstr("no keeper")));
  }
  EXPECT_THAT(list_fleets(options().simulator)->running, IsEmpty());
}

TEST_F(Fleets, WhatCannotBeStartedSaysWhy) {
  EXPECT_THAT(start_fleet("lab", "h100x9000", options().simulator),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("h100x9000")));
  EXPECT_THAT(start_fleet("lab", "t4x1", {.libraries = dir_ / "nothing"}),
              FailsWith(ErrorCode::unavailable, HasSubstr("cannot be opened")));
}

TEST_F(Fleets, APresetIsNoRunningFleet) {
  const auto refused = open_running_fleet("t4x1", options());
  EXPECT_THAT(refused, FailsWith(ErrorCode::invalid_argument, "no simulated fleet 't4x1' is running"));
}

TEST(ParseLoad, ReadsMemoryAndUtilization) {
  const auto load = parse_load("memory=20GiB,util=80");
  ASSERT_THAT(load, IsOk());
  EXPECT_EQ(load->memory, 20_GiB);
  EXPECT_EQ(load->utilization, 80_pct);
  EXPECT_EQ(parse_load("util=5")->memory, SimulatedLoad{}.memory);
  for (const char* text : {"", "memory", "util=101", "memory=much", "heat=9", "util=1=2"})
    EXPECT_THAT(parse_load(text), FailsWith(ErrorCode::invalid_argument, HasSubstr("invalid value"))) << text;
}

}  // namespace
}  // namespace gpuwarden::machine
