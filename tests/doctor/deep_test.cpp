// SPDX-License-Identifier: Apache-2.0
// Each check of what the GPUs showed under test: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::DeepGpu;
using facts::DeepRun;
using facts::Snapshot;

/// A run in which GPU 1 was tested and found sound.
DeepGpu& sound(Snapshot& m) {
  DeepGpu gpu;
  gpu.index = GpuIndex{1};
  gpu.uuid = m.gpus[1].gpu.uuid;
  gpu.name = m.gpus[1].gpu.name;
  gpu.memory = facts::DeepMemory{.free = 80_GiB, .tested = 72_GiB, .patterns = {"zeros"}, .complete = true};
  gpu.figures = {{.id = "pcie_to_device", .value = 50, .unit = "GB/s", .expected = 63, .least = 44.1},
                 {.id = "memory_bandwidth", .value = 2900, .unit = "GB/s", .expected = 3350, .least = 2512},
                 {.id = "matrix_bf16", .value = 700, .unit = "TFLOPS", .expected = 989, .least = 494},
                 {.id = "tensor_bf16", .value = 1, .unit = "TFLOPS"}};
  gpu.moments = {{.when = "load", .temperature = 60_degC, .clock_sm = 1755_MHz}};
  m.deep = DeepRun{.library = "libcuda.so.1", .cuda_version = "12.4", .gpus = {gpu}};
  return m.deep->gpus[0];
}

constexpr auto kCases = std::to_array<Case>({
    {"deep-memory-error",
     [](Snapshot& m) {
       auto& memory = *sound(m).memory;
       memory.mismatches = 2;
       memory.faults = {{0x7f0000001000, 0x5555555555555555, 0x5555555555555554, "0x55"}};
     },
     [](Snapshot& m) { sound(m).memory.reset(); }, "1 bit, pattern 0x55"},
    {"deep-compute-error", [](Snapshot& m) { sound(m).wrong_results = 3; }, [](Snapshot& m) { sound(m); },
     "3 sums of ones"},
    {"deep-failed", [](Snapshot& m) { sound(m).failed = "memory: launch: CUDA_ERROR_LAUNCH_FAILED (719)"; },
     [](Snapshot& m) { sound(m).notes = {"memory: the time was up"}; }, "719"},
    {"deep-bandwidth-low", [](Snapshot& m) { sound(m).figures[1].value = 2511; },
     [](Snapshot& m) { sound(m).figures[1].value = 2512; }, "memory_bandwidth 2511 GB/s"},
    {"deep-pcie-slow", [](Snapshot& m) { sound(m).figures[0].value = 12; },
     [](Snapshot& m) {
       auto& figure = sound(m).figures[0];
       figure.value = 12;
       figure.expected.reset();
       figure.least.reset();
     },
     "GPU 1: pcie_to_device 12 GB/s"},
    {"deep-throughput-low",
     [](Snapshot& m) {
       auto& gpu = sound(m);
       gpu.figures[2].value = 200;
       gpu.moments[0].throttle_reasons = {facts::ThrottleReason::hw_thermal_slowdown};
     },
     [](Snapshot& m) { sound(m).figures[2].value = 495; }, "held back by hw_thermal_slowdown"},
    {"deep-not-possible", [](Snapshot& m) { sound(m).not_possible = "1 process runs on it (77 python)"; },
     [](Snapshot& m) { sound(m); }, "77 python"},
});

TEST(DeepChecks, SpeakAloneAndAreSilentOnNearMisses) { expect_cases(kCases); }

TEST(DeepChecks, AMachineWithoutCudaIsANoteAndNoFault) {
  Snapshot m = healthy_machine();
  m.deep = DeepRun{.library = "libcuda.so.1", .not_possible = "CUDA's driver library cannot be opened"};
  const auto verdict = examined(m);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "deep-not-possible");
  EXPECT_EQ(verdict.worst, doctor::Severity::info);
}

TEST(DeepChecks, ACudaThatDoesNotStartIsAnErrorWithItsNextStep) {
  Snapshot m = healthy_machine();
  m.deep = DeepRun{.failed = "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", .next_steps = {"sudo reboot"}};
  const auto verdict = examined(m);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "deep-failed");
  EXPECT_EQ(verdict.findings[0].fix, std::vector<std::string>{"sudo reboot"});
}

TEST(DeepChecks, AStandInsFiguresAreNeverPassedOffAsTheDrivers) {
  Snapshot m = healthy_machine();
  sound(m).wrong_results = 1;
  m.deep->stand_in = true;
  m.deep->library = "/opt/other/libcuda.so";
  EXPECT_TRUE(examined(m).findings.at(0).title.contains("told by /opt/other/libcuda.so, a stand-in"));
}

TEST(DeepChecks, EveryFaultyGpuIsNamed) {
  Snapshot m = healthy_machine();
  sound(m).wrong_results = 1;
  auto other = m.deep->gpus[0];
  other.index = GpuIndex{3};
  m.deep->gpus.push_back(other);
  const auto verdict = examined(m);
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_TRUE(verdict.findings[0].title.starts_with("GPU 1"));
  EXPECT_TRUE(verdict.findings[1].title.starts_with("GPU 3"));
}

}  // namespace

std::span<const Case> deep_cases() { return kCases; }

}  // namespace gpuwarden::testing
