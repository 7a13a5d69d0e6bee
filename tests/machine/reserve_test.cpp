// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/reserve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine/simulated.hpp"
#include "support/fake_clock.hpp"
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

TEST_F(Machines, WhoHoldsWhatIsTold) {
  const auto machine = Machine::open(Simulated{"h100x8"}, options());
  ASSERT_THAT(machine, IsOk());
  const auto held = reserve(*machine, {.gpus = {.count = 2}}, {"run-1", "train"}, system_clock());
  ASSERT_THAT(held, IsOk());
  const auto holdings = holdings_of(*machine);
  ASSERT_THAT(holdings, IsOk());
  ASSERT_EQ(holdings->here.leases.size(), 2U);
  EXPECT_EQ(holdings->here.leases[0].holders.at(0).command, "train");
  EXPECT_TRUE(holdings->fleets.leases.empty()) << "the fleet's own are told above";
}

TEST_F(Machines, AProgramSeesTheGpusThatAreHeldForIt) {
  const auto machine = Machine::open(Simulated{"h100x8"}, options());
  ASSERT_THAT(machine, IsOk());
  const auto held = reserve(*machine, {.gpus = {.count = 2}}, {"run-1", "train"}, system_clock());
  ASSERT_THAT(held, IsOk());
  const Environment of = environment_of(*held, *machine, {{"HOME", "/root"}, {"CUDA_VISIBLE_DEVICES", "7"}});
  EXPECT_EQ(of.at("HOME"), "/root");
  EXPECT_EQ(of.at("CUDA_VISIBLE_DEVICES"), placement::cuda_visible_devices(held->decision()));
  EXPECT_EQ(of.at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  for (const auto& [name, value] : machine->simulated_environment({})) EXPECT_TRUE(of.contains(name)) << name;
}

TEST_F(Machines, GpusAreKeptAndTheirLocksPutRightUntilTheStop) {
  const auto machine = Machine::open(Simulated{"t4x1"}, options());
  ASSERT_THAT(machine, IsOk());
  auto held = reserve(*machine, {.gpus = {.count = 1}}, {"run-1", "train"}, system_clock());
  ASSERT_THAT(held, IsOk());
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "leases")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".lock") && name != "gate.lock") std::filesystem::remove(entry.path());
  }
  /// Stops at the second look.
  testing::FakeClock clock;
  std::stop_source stop;
  std::vector<std::string> warnings;
  const auto begin = clock.now();
  held->keep(clock, stop.get_token(), [&](const std::string& text) {
    warnings.push_back(text);
    stop.request_stop();
  });
  EXPECT_EQ(warnings.size(), 1U);
  EXPECT_EQ(clock.now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace gpuwarden::machine
