// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/own_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpuwarden/machine/reserve.hpp"
#include "machine/simulated.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using testing::IsOk;
using testing::Machines;

constexpr placement::Request kAll{.all = true};

TEST_F(Machines, WhatTheChooserOrItsRunHoldsIsFreeForItAlone) {
  const auto machine = Machine::open(Simulated{"h100x8"}, options());
  ASSERT_THAT(machine, IsOk());
  const auto two = reserve(*machine, {.gpus = {.count = 2}}, {"run-1", "a"}, system_clock());
  ASSERT_THAT(two, IsOk());
  const auto chosen_by = [&](const Chooser& chooser) {
    const auto choice = choose_for(*machine, kAll, chooser, {}, system_clock());
    EXPECT_THAT(choice, IsOk());
    return choice->decision.selected.size();
  };
  EXPECT_EQ(chosen_by({.pids = {Pid{1}}}), 6U);
  EXPECT_EQ(chosen_by({.pids = {Pid{::getpid()}}}), 8U);
  // A child that inherits nothing but its parents.
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int descriptor : two->descriptors()) ::close(descriptor);
    const auto choice = choose_for(*machine, kAll, {.pids = {Pid{::getpid()}}}, {}, system_clock());
    ::_exit(choice ? static_cast<int>(choice->decision.selected.size()) : 99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 8) << "whatever its environment says";
}

facts::Snapshot used_by(std::int32_t pid, std::optional<Bytes> memory) {
  facts::Snapshot snapshot = testing::fleet(1);
  facts::GpuProcess process;
  process.pid = Pid{pid};
  process.compute = true;
  process.memory = memory;
  snapshot.gpus[0].processes = {process};
  snapshot.gpus[0].sample.memory_used = 3_GiB;
  snapshot.gpus[0].sample.utilization_gpu = Percent(90);
  return snapshot;
}

TEST(OwnChoice, OwnUseOfOtherDevicesCountsWhereDevicesAreNamed) {
  facts::Snapshot snapshot = used_by(7, 2_GiB);
  const Uuid gpu = snapshot.gpus[0].gpu.uuid;
  const auto left = [&](const std::vector<Uuid>& devices) {
    return without_processes(snapshot, {Pid{7}}, devices).gpus[0].processes->size();
  };
  EXPECT_EQ(left({gpu}), 0U);
  EXPECT_EQ(left({}), 1U);
  EXPECT_EQ(left({Uuid("GPU-another")}), 1U);
  snapshot.gpus[0].mig_devices = {{.uuid = Uuid("MIG-a"), .gpu_instance = 1},
                                  {.uuid = Uuid("MIG-b"), .gpu_instance = 2}};
  snapshot.gpus[0].processes->front().gpu_instance = 1;
  EXPECT_EQ(left({Uuid("MIG-a")}), 0U);
  EXPECT_EQ(left({Uuid("MIG-b")}), 1U);
}

TEST(OwnChoice, OwnUseDoesNotCountAndThatOfOthersDoes) {
  const auto own = without_processes(used_by(7, 2_GiB), {Pid{7}}).gpus[0];
  EXPECT_TRUE(own.processes->empty());
  EXPECT_EQ(own.sample.memory_used, 1_GiB);
  EXPECT_EQ(own.sample.utilization_gpu, Percent(0)) << "so that a limit on it can be met";
  EXPECT_EQ(without_processes(used_by(7, std::nullopt), {Pid{7}}).gpus[0].sample.memory_used, std::nullopt)
      << "not known";
  EXPECT_EQ(without_processes(used_by(7, 2_GiB), {Pid{8}}).gpus[0].processes->size(), 1U);
  facts::Snapshot both = used_by(7, 2_GiB);
  both.gpus[0].processes->push_back(both.gpus[0].processes->front());
  both.gpus[0].processes->back().pid = Pid{8};
  EXPECT_EQ(without_processes(both, {Pid{7}}).gpus[0].sample.memory_used, 3_GiB) << "somebody else computes there, too";
}

TEST(OwnChoice, CudaCountsWhatIsVisible) {
  const facts::Snapshot snapshot = testing::fleet(4);
  const auto uuid = [&](std::size_t index) { return snapshot.gpus[index].gpu.uuid; };
  const placement::Visibility two{.cuda_visible_devices = uuid(3).value + "," + uuid(1).value, .cuda_device_order = {}};
  EXPECT_EQ(cuda_ordinal(uuid(3), two, snapshot, {}), 0U);
  EXPECT_EQ(cuda_ordinal(uuid(1), two, snapshot, {}), 1U);
  EXPECT_EQ(cuda_ordinal(uuid(0), two, snapshot, {}), std::nullopt) << "hidden";
  EXPECT_EQ(cuda_ordinal(uuid(2), {.cuda_visible_devices = {}, .cuda_device_order = "PCI_BUS_ID"}, snapshot, {}), 2U);
  EXPECT_EQ(cuda_ordinal(uuid(2), two, snapshot, std::vector{uuid(0), uuid(2)}), 1U) << "CUDA has read it long ago";
}

}  // namespace
}  // namespace gpuwarden::machine
