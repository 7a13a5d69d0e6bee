// SPDX-License-Identifier: Apache-2.0
// Each check of a GPU's memory, heat, clocks and link: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;
using facts::ThrottleReason;

constexpr auto kHealthCases = std::to_array<Case>({
    {"row-remap-failed", [](Snapshot& m) { m.gpus[1].sample.remapped_rows_failed = Count(1); },
     [](Snapshot& m) { m.gpus[1].sample.remapped_rows_uncorrected = Count(1); }, "GPU 1"},
    {"row-remap-pending", [](Snapshot& m) { m.gpus[1].sample.remapped_rows_pending = Count(1); },
     [](Snapshot& m) { m.gpus[1].sample.remapped_rows_corrected = Count(3); }, "at the next reset"},
    {"no-spare-rows", [](Snapshot& m) { m.gpus[1].sample.remap_availability->none = Count(2); },
     [](Snapshot& m) { m.gpus[1].sample.remap_availability->low = Count(2); }, "2 memory banks"},
    {"page-retirement-pending", [](Snapshot& m) { m.gpus[0].sample.retired_pages_pending = Count(1); },
     [](Snapshot& m) { m.gpus[0].sample.retired_pages_pending = Count(0); }, "GPU 0"},
    {"many-pages-retired", [](Snapshot& m) { m.gpus[0].sample.retired_pages_single_bit = Count(60); },
     [](Snapshot& m) { m.gpus[0].sample.retired_pages_single_bit = Count(59); }, "60"},
    {"ecc-uncorrected", [](Snapshot& m) { m.gpus[3].sample.ecc_uncorrected_volatile = Count(2); },
     [](Snapshot& m) { m.gpus[3].sample.ecc_uncorrected_volatile.reset(); }, "GPU 3"},
    {"ecc-uncorrected-earlier", [](Snapshot& m) { m.gpus[3].sample.ecc_uncorrected_aggregate = Count(2); },
     [](Snapshot& m) { m.gpus[3].sample.ecc_corrected_aggregate = Count(2); }, "2 uncorrectable"},
    {"ecc-many-corrected", [](Snapshot& m) { m.gpus[3].sample.ecc_corrected_volatile = Count(10'000); },
     [](Snapshot& m) { m.gpus[3].sample.ecc_corrected_volatile = Count(9'999); }, "10000"},
    {"ecc-off", [](Snapshot& m) { m.gpus[2].gpu.ecc_enabled = false; },
     [](Snapshot& m) {
       use_gpus(m, "NVIDIA GeForce RTX 4090", {8, 9});
       m.gpus[2].gpu.ecc_enabled = false;
     },
     "GPU 2"},
    {"hardware-slowdown", [](Snapshot& m) { m.gpus[0].sample.throttle_reasons = {ThrottleReason::hw_power_brake}; },
     [](Snapshot& m) { m.gpus[0].sample.throttle_reasons = {ThrottleReason::sw_power_cap}; }, "power brake"},
    {"thermal-slowdown", [](Snapshot& m) { m.gpus[0].sample.throttle_reasons = {ThrottleReason::sw_thermal_slowdown}; },
     [](Snapshot& m) { m.gpus[0].sample.throttle_reasons = {ThrottleReason::applications_clocks_setting}; }, "too hot"},
    {"temperature-near-limit", [](Snapshot& m) { m.gpus[0].sample.temperature = Celsius(84); },
     [](Snapshot& m) { m.gpus[0].sample.temperature = Celsius(83); }, "84 C, which slows down at 87 C"},
    {"memory-temperature-high", [](Snapshot& m) { m.gpus[0].sample.temperature_memory = Celsius(95); },
     [](Snapshot& m) { m.gpus[0].sample.temperature_memory = Celsius(94); }, "95 C"},
    {"power-limit-lowered",
     [](Snapshot& m) {
       for (auto& record : m.gpus) record.sample.power_limit = Milliwatts(500'000);
     },
     [](Snapshot& m) {
       for (auto& record : m.gpus) record.sample.power_limit = Milliwatts(690'000);
     },
     "GPUs 0-3 are limited to 500 W of 700 W"},
    {"fan-stopped",
     [](Snapshot& m) {
       m.gpus[0].sample.fan_speed = Percent(0);
       m.gpus[0].sample.temperature = Celsius(76);
     },
     [](Snapshot& m) { m.gpus[0].sample.fan_speed = Percent(0); }, "stands still at 76 C"},
    {"pcie-width-reduced", [](Snapshot& m) { m.gpus[0].sample.pcie_width = Count(8); },
     [](Snapshot& m) { m.gpus[0].sample.pcie_width.reset(); }, "x8 of x16"},
    {"pcie-slow-under-load",
     [](Snapshot& m) {
       m.gpus[0].sample.pcie_generation = Count(3);
       m.gpus[0].sample.utilization_gpu = Percent(99);
     },
     [](Snapshot& m) { m.gpus[0].sample.pcie_generation = Count(1); }, "PCIe 3 under load"},
    {"pcie-replays", [](Snapshot& m) { m.gpus[0].sample.pcie_replays = Count(1000); },
     [](Snapshot& m) { m.gpus[0].sample.pcie_replays = Count(999); }, "1000"},
});

}  // namespace

std::span<const Case> health_cases() { return kHealthCases; }

namespace {

TEST(HealthChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(health_cases()); }

TEST(HealthChecks, MemoryIsLookedAtInTheSectionOfItsGeneration) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  machine.gpus[3].sample.ecc_uncorrected_volatile = Count(2);
  EXPECT_TRUE(fixes_of(machine).contains("-d ECC,ROW_REMAPPER ")) << fixes_of(machine);
  use_v100(machine);
  for (auto& record : machine.gpus) record.sample.ecc_uncorrected_volatile = Count(2);
  EXPECT_TRUE(fixes_of(machine).contains("-d ECC,PAGE_RETIREMENT ")) << fixes_of(machine);
  EXPECT_FALSE(fixes_of(machine).contains("ROW_REMAPPER")) << fixes_of(machine);
  const auto findings = examined(machine).findings;
  EXPECT_TRUE(std::ranges::any_of(
      findings, [](const auto& finding) { return finding.link.contains("dynamic-page-retirement"); }));
}

TEST(HealthChecks, TheLinkOfAVirtualMachineIsItsHosts) {
  Snapshot machine = healthy_machine();
  machine.gpus[0].sample.pcie_width = Count(1);
  machine.gpus[1].sample.pcie_generation = Count(1);
  machine.gpus[1].sample.utilization_gpu = Percent(99);
  EXPECT_EQ(found_in(machine), "pcie-width-reduced pcie-slow-under-load");
  Snapshot guest = machine;
  host(guest).hypervisor = "kvm";
  EXPECT_EQ(found_in(guest), "");
  for (const char* mode : {"pass_through", "vgpu"}) {
    for (auto& record : machine.gpus) record.gpu.virtualization_mode = mode;
    EXPECT_EQ(found_in(machine), "") << mode;
  }
  for (auto& record : machine.gpus) record.gpu.virtualization_mode = "none";
  EXPECT_EQ(found_in(machine), "pcie-width-reduced pcie-slow-under-load");
}

}  // namespace
}  // namespace gpuwarden::testing
