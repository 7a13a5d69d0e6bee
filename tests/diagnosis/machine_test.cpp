// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuwarden::diagnosis {
namespace {

using facts::Snapshot;

/// A machine with a driver and one idle GPU.
Snapshot healthy() {
  Snapshot machine;
  machine.driver_version = "550.54.15";
  machine.nvml_version = "12.550.54.15";
  machine.kernel_module_version = "550.54.15";
  facts::GpuRecord& record = machine.gpus.emplace_back();
  record.gpu.vendor = "NVIDIA";
  record.gpu.compute_mode = facts::ComputeMode::shared;
  record.sample.memory_total = Bytes(80) * (1ULL << 30U);
  record.processes.emplace();
  machine.environment.emplace();
  return machine;
}

std::string instead_of(const std::string& cause, const Snapshot& machine, bool in_report = false) {
  const auto testimony = ask_machine({cause, {}, false}, machine, in_report);
  return testimony ? testimony->cause : cause;
}

TEST(MachineTestimony, AHealthyMachineChangesNothing) {
  for (const char* cause : {"nccl_timeout", "oom_capacity", "cuda_unknown_error", "no_device_detected", "device_busy",
                            "driver_too_old", "launch_failure", "libcuda_missing", "fell_off_bus"}) {
    EXPECT_EQ(instead_of(cause, healthy()), cause);
  }
}

TEST(MachineTestimony, FaultsInTheKernelLogExplainWhatProgramsSee) {
  struct Case {
    const char* kind;
    std::uint32_t code;
    const char* cause;
  };
  for (const Case& each :
       {Case{"xid", 79, "fell_off_bus"}, Case{"xid", 94, "ecc_error"}, Case{"xid", 119, "gsp_error"},
        Case{"xid", 74, "nvlink_error"}, Case{"sxid", 12028, "nvlink_error"}, Case{"xid", 31, "nccl_timeout"}}) {
    Snapshot machine = healthy();
    machine.kernel_faults = {{each.kind, each.code, "0000:17:00", {}, "", 1}};
    EXPECT_EQ(instead_of("nccl_timeout", machine), each.cause) << each.kind << each.code;
  }
}

TEST(MachineTestimony, AFactNamesWhatItRestsOn) {
  Snapshot machine = healthy();
  machine.gpus[0].state = facts::GpuState::lost;
  const auto testimony = ask_machine({"nccl_timeout", {}, false}, machine, false);
  ASSERT_TRUE(testimony);
  EXPECT_EQ(testimony->fact, "GPU 0 does not answer any more: it is lost");
  EXPECT_GT(testimony->confidence, 0.9) << "the driver itself says so";
}

TEST(MachineTestimony, TheDriversTwoHalvesMustAgree) {
  Snapshot machine = healthy();
  machine.kernel_module_version = "535.183.01";
  EXPECT_EQ(instead_of("cuda_unknown_error", machine), "driver_library_mismatch");
  EXPECT_EQ(instead_of("oom_capacity", machine), "oom_capacity") << "memory has nothing to do with it";
}

TEST(MachineTestimony, HiddenGpusAreThereAllTheSame) {
  Snapshot machine = healthy();
  machine.environment->variables = {{"CUDA_VISIBLE_DEVICES", ""}};
  EXPECT_EQ(instead_of("no_device_detected", machine), "visible_devices_empty");
  machine.environment->variables = {{"CUDA_VISIBLE_DEVICES", "0"}};
  EXPECT_EQ(instead_of("no_device_detected", machine), "no_device_detected");
}

TEST(MachineTestimony, WhatAReportShowsProvesLess) {
  Snapshot machine = healthy();
  machine.gpus[0].processes = {facts::GpuProcess{}};
  machine.gpus[0].processes->front().memory = Bytes(70) * (1ULL << 30U);
  EXPECT_EQ(instead_of("oom_capacity", machine), "oom_other_process");
  EXPECT_EQ(instead_of("oom_capacity", machine, true), "oom_capacity") << "it may be the one that failed";
  machine.gpus[0].gpu.compute_mode = facts::ComputeMode::exclusive_process;
  EXPECT_EQ(instead_of("device_busy", machine, true), "exclusive_compute_mode");
}

TEST(MachineTestimony, OnlyTheGpuThatIsNamedCounts) {
  Snapshot machine = healthy();
  machine.gpus.push_back(machine.gpus[0]);
  machine.gpus[0].gpu.pci_bus_id = "00000000:17:00.0";
  machine.gpus[1].gpu.index = GpuIndex{1};
  machine.gpus[1].gpu.pci_bus_id = "00000000:65:00.0";
  machine.gpus[0].gpu.compute_mode = facts::ComputeMode::exclusive_process;
  const auto cause = [&](const Facts& facts) {
    const auto testimony = ask_machine({"device_busy", facts, false}, machine, false);
    return testimony ? testimony->cause : "device_busy";
  };
  EXPECT_EQ(cause({}), "exclusive_compute_mode");
  EXPECT_EQ(cause({{"gpu", std::int64_t{0}}}), "exclusive_compute_mode");
  EXPECT_EQ(cause({{"gpu", std::int64_t{1}}}), "device_busy");
  EXPECT_EQ(cause({{"pci", std::string("0000:17:00")}}), "exclusive_compute_mode");
  EXPECT_EQ(cause({{"pci", std::string("0000:65:00.0")}}), "device_busy");
}

TEST(MachineTestimony, AMessagesOwnNumbersAndPidComeOverTheMachines) {
  Snapshot machine = healthy();
  facts::GpuProcess process;
  process.pid = Pid{4711};
  process.memory = Bytes(70) * (1ULL << 30U);
  machine.gpus[0].processes = {process};
  const auto speaks = [&](const Facts& facts, bool settled) {
    return ask_machine({"oom_capacity", facts, settled}, machine, false).has_value();
  };
  EXPECT_TRUE(speaks({}, false));
  EXPECT_FALSE(speaks({}, true));
  EXPECT_FALSE(speaks({{"pid", std::int64_t{4711}}}, false));
}

TEST(MachineTestimony, AHarmlessSwitchErrorExplainsNothing) {
  Snapshot machine = healthy();
  machine.kernel_faults = {{"sxid", 12028, {}, {}, "Non-fatal, Link 3 egress", 1}};
  EXPECT_EQ(instead_of("nccl_timeout", machine), "nccl_timeout");
}

TEST(MachineTestimony, TagsFollowFromTheMachine) {
  Snapshot machine = healthy();
  EXPECT_TRUE(tags_of(machine).empty());
  machine.environment->host.wsl = 2;
  machine.environment->containers.inside = "docker";
  machine.gpus[0].gpu.vendor = "AMD";
  EXPECT_EQ(tags_of(machine), (std::set<std::string>{"container", "rocm", "wsl"}));
}

}  // namespace
}  // namespace gpuwarden::diagnosis
