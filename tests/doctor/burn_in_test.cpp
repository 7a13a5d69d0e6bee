// SPDX-License-Identifier: Apache-2.0
// Each check of what the GPUs showed under test: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/machines.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::testing {
namespace {

using facts::BurnInGpu;
using facts::BurnInRun;

/// A run in which GPU 1 of the healthy machine was tested and found sound.
BurnInRun sound_run() {
  BurnInGpu gpu;
  gpu.index = GpuIndex{1};
  gpu.name = "NVIDIA H100 80GB HBM3";
  gpu.memory = facts::BurnInMemory{.free = 80_GiB, .tested = 72_GiB, .patterns = {"zeros"}, .complete = true};
  gpu.figures = {{.id = "pcie_to_device", .value = 50, .unit = "GB/s", .expected = 63, .least = 44.1},
                 {.id = "memory_bandwidth", .value = 2900, .unit = "GB/s", .expected = 3350, .least = 2512},
                 {.id = "matrix_bf16", .value = 700, .unit = "TFLOPS", .expected = 989, .least = 494},
                 {.id = "tensor_bf16", .value = 1, .unit = "TFLOPS"}};
  gpu.moments = {{.when = "load", .temperature = 60_degC, .clock_sm = 1755_MHz}};
  return BurnInRun{.library = "libcuda.so.1", .cuda_version = "12.4", .gpus = {gpu}};
}

struct BurnInCase {
  std::string_view id;
  void (*sick)(BurnInGpu&);
  void (*near_miss)(BurnInGpu&);
  std::string_view says;
};

constexpr auto kBurnInCases = std::to_array<BurnInCase>({
    {"deep-memory-error",
     [](BurnInGpu& gpu) {
       gpu.memory->mismatches = 2;
       gpu.memory->faults = {{0x7f0000001000, 0x5555555555555555, 0x5555555555555554, "0x55"}};
     },
     [](BurnInGpu& gpu) { gpu.memory.reset(); }, "1 bit, pattern 0x55"},
    {"deep-compute-error", [](BurnInGpu& gpu) { gpu.wrong_results = 3; }, [](BurnInGpu& gpu) { gpu.wrong_results = 0; },
     "3 sums of ones"},
    {"deep-failed", [](BurnInGpu& gpu) { gpu.failed = "memory: launch: CUDA_ERROR_LAUNCH_FAILED (719)"; },
     [](BurnInGpu& gpu) { gpu.notes = {"memory: the time was up"}; }, "719"},
    {"deep-bandwidth-low", [](BurnInGpu& gpu) { gpu.figures[1].value = 2511; },
     [](BurnInGpu& gpu) { gpu.figures[1].value = 2512; }, "memory_bandwidth 2511 GB/s"},
    {"deep-pcie-slow", [](BurnInGpu& gpu) { gpu.figures[0].value = 12; },
     [](BurnInGpu& gpu) {
       gpu.figures[0].value = 12;
       gpu.figures[0].expected.reset();
       gpu.figures[0].least.reset();
     },
     "GPU 1: pcie_to_device 12 GB/s"},
    {"deep-throughput-low",
     [](BurnInGpu& gpu) {
       gpu.figures[2].value = 200;
       gpu.moments[0].throttle_reasons = {facts::ThrottleReason::hw_thermal_slowdown};
     },
     [](BurnInGpu& gpu) { gpu.figures[2].value = 495; }, "held back by hw_thermal_slowdown"},
    {"deep-not-possible", [](BurnInGpu& gpu) { gpu.not_possible = "1 process runs on it (77 python)"; },
     [](BurnInGpu& gpu) { gpu.notes = {"tensor cores: this GPU has none"}; }, "77 python"},
});

/// The verdict over a healthy machine whose GPUs showed this.
doctor::Examination judged(const BurnInRun& run) {
  return doctor::examine(healthy_machine(), knowledge::Knowledge::built_in(), {}, {}, &run);
}

TEST(BurnInChecks, SpeakAloneAndAreSilentOnNearMisses) {
  for (const BurnInCase& test : kBurnInCases) {
    BurnInRun sick = sound_run();
    test.sick(sick.gpus[0]);
    const auto found = judged(sick).findings;
    ASSERT_EQ(found.size(), 1U) << test.id;
    EXPECT_EQ(found[0].id, test.id);
    EXPECT_TRUE(found[0].title.contains(test.says)) << found[0].title;
    EXPECT_TRUE(found[0].severity < doctor::Severity::warning || !found[0].fix.empty()) << test.id << " has no fix";
    BurnInRun well = sound_run();
    test.near_miss(well.gpus[0]);
    EXPECT_TRUE(judged(well).findings.empty()) << "near miss of " << test.id;
  }
}

TEST(BurnInChecks, EachHasACase) {
  for (const doctor::Check& check : doctor::burn_in_checks())
    EXPECT_NE(std::ranges::find(kBurnInCases, check.id, &BurnInCase::id), kBurnInCases.end()) << check.id;
  EXPECT_EQ(doctor::burn_in_checks().size(), kBurnInCases.size());
}

TEST(BurnInChecks, AMachineWithoutCudaIsANoteAndNoFault) {
  const auto verdict = judged({.not_possible = "CUDA's driver library cannot be opened"});
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "deep-not-possible");
  EXPECT_EQ(verdict.worst, doctor::Severity::info);
}

TEST(BurnInChecks, ACudaThatDoesNotStartIsAnErrorWithItsNextStep) {
  const auto verdict =
      judged({.failed = "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", .next_steps = {"sudo reboot"}});
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "deep-failed");
  EXPECT_EQ(verdict.findings[0].fix, std::vector<std::string>{"sudo reboot"});
}

TEST(BurnInChecks, AStandInsFiguresAreNeverPassedOffAsTheDrivers) {
  BurnInRun run = sound_run();
  run.gpus[0].wrong_results = 1;
  run.stand_in = true;
  run.library = "/opt/other/libcuda.so";
  EXPECT_TRUE(judged(run).findings.at(0).title.contains("reported by /opt/other/libcuda.so, a stand-in"));
}

TEST(BurnInChecks, EveryFaultyGpuIsNamed) {
  BurnInRun run = sound_run();
  run.gpus[0].wrong_results = 1;
  run.gpus.push_back(run.gpus[0]);
  run.gpus[1].index = GpuIndex{3};
  const auto verdict = judged(run);
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_TRUE(verdict.findings[0].title.starts_with("GPU 1"));
  EXPECT_TRUE(verdict.findings[1].title.starts_with("GPU 3"));
}

}  // namespace
}  // namespace gpuwarden::testing
