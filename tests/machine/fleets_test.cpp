// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/fleets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "machine/simulated.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::machine {
namespace {

using ::testing::Contains;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::IsOkAnd;

using Fleets = testing::Machines;

/// Nobody may be there to reap it.
bool has_ended(pid_t pid) {
  return ::kill(pid, 0) != 0 || read_line("/proc/" + std::to_string(pid) + "/stat").value_or("").contains(") Z ");
}

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
    EXPECT_THAT(stop_fleet(*fleet, system_clock()), IsOk());
    EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return has_ended(keeper->value); }))
        << "it has ended, and nobody had to wait for it";
    EXPECT_THAT(stop_fleet(*fleet, system_clock()), FailsWith(ErrorCode::failed, HasSubstr("no keeper")));
  }
  EXPECT_THAT(list_fleets(options().simulator)->running, IsEmpty());
}

TEST_F(Fleets, AKeeperHasNoneOfItsStartersDescriptors) {
  auto pipe = make_pipe();
  ASSERT_THAT(pipe, IsOk());
  // As a lease is inherited: nothing of it may live on in the keeper.
  const int inherited = ::dup(pipe->write_end.get());
  ASSERT_THAT(start_fleet("lab", "t4x1", options().simulator), IsOk());
  ::close(inherited);
  pipe->write_end.reset();
  EXPECT_THAT(read_descriptor(pipe->read_end.get(), "the pipe", 1), IsOkAnd(IsEmpty()));
  const auto fleet = open_running_fleet("lab", options());
  ASSERT_THAT(fleet, IsOk());
  EXPECT_THAT(stop_fleet(*fleet, system_clock()), IsOk());
}

TEST_F(Fleets, APidThatNobodyStandsForIsNotEnded) {
  ASSERT_THAT(start_fleet("lab", "t4x1", options().simulator), IsOk());
  const auto fleet = open_running_fleet("lab", options());
  ASSERT_THAT(fleet, IsOk());
  const auto file = std::filesystem::path(fleet->fleet_folder()) / "keeper";
  const auto keeper = parse_integer(read_line(file).value_or(""));
  ASSERT_TRUE(keeper);
  ::kill(static_cast<pid_t>(*keeper), SIGKILL);
  ASSERT_TRUE(testing::eventually(testing::kSoon, [&] { return has_ended(static_cast<pid_t>(*keeper)); }));
  // Its number is somebody else's by now.
  ASSERT_THAT(write_file_atomically(file, std::to_string(::getpid()) + "\n"), IsOk());
  EXPECT_THAT(stop_fleet(*fleet, system_clock()), FailsWith(ErrorCode::failed, HasSubstr("no keeper")));
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
