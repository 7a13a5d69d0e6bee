// SPDX-License-Identifier: Apache-2.0
// Each check of the GPUs' health: what makes it speak alone, and what only nearly does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"
#include "gpuwarden/facts/failed_readings.hpp"

namespace gpuwarden::testing {
namespace {

using facts::GpuState;
using facts::Snapshot;

void add_process(Snapshot& machine, bool listed) {
  facts::GpuProcess process;
  process.pid = Pid{4711};
  process.compute = listed;
  process.listed = listed;
  process.command = "python train.py";
  machine.gpus[0].processes->push_back(process);
  machine.gpus[0].sample.memory_used = Bytes(40ULL << 30U);
}

void turn_mig_on(Snapshot& machine) {
  for (auto& record : machine.gpus) record.gpu.mig_enabled = record.gpu.mig_pending = true;
}

void divide(Snapshot& machine) {
  turn_mig_on(machine);
  for (auto& record : machine.gpus) record.mig_devices.emplace_back();
}

void use_gb300(Snapshot& machine, std::string_view driver) {
  remove_cuda_software(machine);
  use_gpus(machine, "NVIDIA GB300", {10, 3});
  use_driver(machine, driver);
  divide(machine);
}

constexpr auto kDeviceCases = std::to_array<Case>({
    {"no-gpu", remove_gpus,
     [](Snapshot& m) {
       for (auto& record : m.gpus) record.state = GpuState::suspended;
     },
     "no GPU and no NVIDIA driver is seen"},
    {"macos",
     [](Snapshot& m) {
       remove_gpus(m);
       remove_cuda_software(m);
       host(m) = {.distribution = "macos"};
     },
     [](Snapshot& m) { host(m).distribution = "debian"; }, "this is macOS, which has no CUDA"},
    {"gpu-lost", [](Snapshot& m) { m.gpus[2].state = GpuState::lost; },
     [](Snapshot& m) { m.gpus[2].state = GpuState::busy; }, "GPU 2 fell off"},
    {"gpu-needs-reset",
     [](Snapshot& m) { m.gpus[0].state = m.gpus[1].state = m.gpus[3].state = GpuState::needs_reset; },
     [](Snapshot& m) { m.gpus[0].state = GpuState::suspended; }, "GPUs 0-1,3 must be reset"},
    {"gpu-not-answering", [](Snapshot& m) { m.gpus[1].state = GpuState::not_answering; },
     [](Snapshot& m) { m.gpus[1].state = GpuState::busy; }, "GPU 1 gives no usable answer"},
    {"gpu-reading-failed",
     [](Snapshot& m) {
       m.gpus[1].cause = std::string(facts::kFailedReading) + "fan: a sensor failed";
       m.gpus[1].next_step = "look at the fan";
     },
     [](Snapshot& m) { m.gpus[1].cause = "it computes for others"; }, "GPU 1: nvidia-smi shows ERR! for its fan"},
    {"gpu-faulty",
     [](Snapshot& m) {
       m.gpus[1].state = GpuState::faulty;
       m.gpus[1].cause = "it reports memory that cannot be";
     },
     [](Snapshot& m) { m.gpus[1].cause = "it reports memory that cannot be"; },
     "GPU 1: it reports memory that cannot be"},
    {"processes-unreadable",
     [](Snapshot& m) {
       m.gpus[3].processes.reset();
       m.gpus[3].processes_unreadable = true;
     },
     [](Snapshot& m) { m.gpus[3].processes.reset(); }, "the processes of GPU 3 cannot be read"},
    {"gpu-not-permitted", [](Snapshot& m) { m.gpus[1].state = GpuState::no_permission; },
     [](Snapshot& m) { m.gpus[1].state = GpuState::suspended; }, "GPU 1"},
    {"memory-held-by-unlisted-process", [](Snapshot& m) { add_process(m, false); },
     [](Snapshot& m) { add_process(m, true); }, "pid 4711 (python train.py)"},
    {"memory-held-by-nobody", [](Snapshot& m) { m.gpus[0].sample.memory_used = Bytes(40ULL << 30U); },
     [](Snapshot& m) {
       m.gpus[0].sample.memory_used = Bytes(40ULL << 30U);
       m.gpus[0].processes.reset();
     },
     "40 GiB"},
    {"compute-prohibited", [](Snapshot& m) { m.gpus[0].gpu.compute_mode = facts::ComputeMode::prohibited; },
     [](Snapshot& m) { m.gpus[0].gpu.compute_mode.reset(); }, "no program can use GPU 0"},
    {"compute-exclusive", [](Snapshot& m) { m.gpus[0].gpu.compute_mode = facts::ComputeMode::exclusive_process; },
     [](Snapshot& m) { m.gpus[0].gpu.compute_mode = facts::ComputeMode::shared; }, "one process at a time"},
    {"mig-change-pending", [](Snapshot& m) { m.gpus[0].gpu.mig_pending = true; }, divide, "MIG will be on"},
    {"mig-without-instances", turn_mig_on, divide, "GPUs 0-3 have no instances"},
    {"mig-driver-too-old", [](Snapshot& m) { use_gb300(m, "580.82.07"); },
     [](Snapshot& m) { use_gb300(m, "595.58.03"); }, "595.58.03"},
    {"persistence-off",
     [](Snapshot& m) {
       m.gpus[0].gpu.persistence = false;
       set_service(m, "nvidia-persistenced", "stopped");
     },
     [](Snapshot& m) { m.gpus[0].gpu.persistence = false; }, "GPU 0"},
    {"display-on-server-gpu", [](Snapshot& m) { m.gpus[0].gpu.display_active = true; },
     [](Snapshot& m) { m.gpus[0].gpu.display_attached = true; }, "H100"},
    {"gpu-unknown",
     [](Snapshot& m) {
       m.gpus[0].gpu.name = "NVIDIA Z9000";
       m.gpus[0].gpu.compute_capability.reset();
       m.gpus[0].gpu.pci_device_id.reset();
     },
     [](Snapshot& m) {
       m.gpus[0].gpu.name = "NVIDIA Z9000";
       m.gpus[0].gpu.pci_device_id.reset();
     },
     "'NVIDIA Z9000'"},
});

}  // namespace

std::span<const Case> device_cases() { return kDeviceCases; }

namespace {

TEST(DeviceChecks, GpusThatAllFallSilentAreToldWhereTheDriverItselfIsNot) {
  Snapshot machine = healthy_machine();
  for (auto& gpu : machine.gpus) gpu.state = GpuState::not_answering;
  EXPECT_EQ(found_in(machine), "gpu-not-answering");
}

TEST(DeviceChecks, SilentGpusAndSuchAsAnswerErrorsAreToldApart) {
  Snapshot machine = healthy_machine();
  for (const std::size_t gpu : {0, 1, 2}) machine.gpus[gpu].state = GpuState::not_answering;
  machine.gpus[0].cause = machine.gpus[2].cause = "the GPU did not answer within 5000 ms";
  machine.gpus[1].cause = "NVML gives an unknown error instead of an answer";
  std::vector<std::string> titles;
  for (const auto& finding : examined(machine).findings) {
    if (finding.id == "gpu-not-answering") titles.push_back(finding.title);
  }
  EXPECT_THAT(titles, ::testing::UnorderedElementsAre(
                          "GPUs 0,2 give no usable answer: the GPU did not answer within 5000 ms",
                          "GPU 1 gives no usable answer: NVML gives an unknown error instead of an answer"));
}

TEST(DeviceChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(device_cases()); }

TEST(DeviceChecks, MigOfGraceHopperIsNotThatOfH200) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_gpus(machine, "NVIDIA GH200 480GB", {9, 0});
  use_driver(machine, "535.129.03");
  divide(machine);
  EXPECT_FALSE(found_in(machine).contains("mig-driver-too-old")) << found_in(machine);
  for (const char* name : {"NVIDIA H200 NVL", "nvidia h200-nvl"}) {
    use_gpus(machine, name, {9, 0});
    EXPECT_TRUE(found_in(machine).contains("mig-driver-too-old")) << found_in(machine);
  }
}

TEST(DeviceChecks, MigOfWorkstationGpusHasMinimaToo) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_gpus(machine, "NVIDIA RTX PRO 5000 Blackwell", {12, 0});
  divide(machine);
  use_driver(machine, "575.51.03");
  EXPECT_TRUE(found_in(machine).contains("mig-driver-too-old")) << found_in(machine);
  EXPECT_TRUE(fixes_of(machine).contains("gpuwarden driver plan --branch 580")) << fixes_of(machine);
  use_driver(machine, "575.57.08");
  EXPECT_FALSE(found_in(machine).contains("mig-driver-too-old")) << found_in(machine);
}

}  // namespace
}  // namespace gpuwarden::testing
