// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/reserve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine/simulated.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::Machines;

TEST_F(Machines, GpusAreHeldUntilTheReservationEnds) {
  const auto machine = Machine::open(Simulated{"h100x8"}, options());
  ASSERT_THAT(machine, IsOk());
  const auto all = [&] { return reserve(*machine, {.gpus = {.count = 8}}, {"run-2", "b"}, system_clock()); };
  {
    const auto two = reserve(*machine, {.gpus = {.count = 2}}, {"run-1", "a"}, system_clock());
    ASSERT_THAT(two, IsOk());
    EXPECT_EQ(two->devices().size(), 2U);
    EXPECT_TRUE(two->snapshot().simulated);
    EXPECT_FALSE(two->descriptors().empty());
    const auto refused = all();
    EXPECT_THAT(refused, FailsWith(ErrorCode::unsatisfied, HasSubstr("8")));
    EXPECT_THAT(refused.error().hint, HasSubstr("--wait"));
  }
  EXPECT_THAT(all(), IsOk());
}

TEST_F(Machines, TheEnvironmentRestrictsTheChoice) {
  Options one = options();
  one.environment = {{"CUDA_VISIBLE_DEVICES", "3"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}};
  const auto machine = Machine::open(Simulated{"h100x8"}, one);
  ASSERT_THAT(machine, IsOk());
  const auto gpu = reserve(*machine, {.gpus = {.count = 1}}, {}, system_clock());
  ASSERT_THAT(gpu, IsOk());
  EXPECT_EQ(gpu->decision().selected.at(0).index, GpuIndex{3});
}

TEST_F(Machines, AStoppedWaitEndsAtOnce) {
  const auto machine = Machine::open(Simulated{"t4x1"}, options());
  ASSERT_THAT(machine, IsOk());
  const auto held = reserve(*machine, {.gpus = {.count = 1}}, {"run-1", "a"}, system_clock());
  ASSERT_THAT(held, IsOk());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(
      reserve(*machine, {.gpus = {.count = 1}, .wait = std::chrono::hours(1)}, {}, system_clock(), stop.get_token()),
      FailsWith(ErrorCode::interrupted, ::testing::_));
}

TEST_F(Machines, OfACaptureOnlyTheChoiceIsTold) {
  const auto machine = Machine::open(Captured{testing::fleet(4), "node.json"}, options());
  ASSERT_THAT(machine, IsOk());
  const auto asked = reserve(*machine, {.gpus = {.count = 2}, .hold = false}, {}, system_clock());
  ASSERT_THAT(asked, IsOk());
  EXPECT_TRUE(asked->decision().satisfied);
  EXPECT_TRUE(asked->devices().empty());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "leases"));
}

}  // namespace
}  // namespace gpuwarden::machine
