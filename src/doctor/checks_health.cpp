// SPDX-License-Identifier: Apache-2.0
// The GPUs' own health: memory repairs, temperature, clocks, power, fans and PCIe.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;
using facts::ThrottleReason;

/// A GPU whose memory has this many pages retired is to be replaced (source: NVIDIA dynamic page retirement, RMA
/// criteria: 60 pages).
constexpr std::uint64_t kManyRetiredPages = 60;
/// Corrected errors since the driver was loaded that are worth a look.
constexpr std::uint64_t kManyCorrected = 10'000;
/// Load under which a PCIe link has no reason to save power.
constexpr std::uint32_t kLoaded = 50;
constexpr std::uint64_t kManyReplays = 1000;

/// The PCIe link that a virtual machine shows is made up by its host; the real one is to be looked at there.
bool has_virtual_link(const Subject& subject, const GpuRecord& gpu) {
  const std::string mode = gpu.gpu.virtualization_mode.value_or("");
  return mode == "pass_through" || mode == "vgpu" || is_virtual_machine(subject);
}

std::uint64_t value_of(const std::optional<Count>& count) { return count ? count->value : 0; }

constexpr std::string_view kPageRetirement = "https://docs.nvidia.com/deploy/dynamic-page-retirement/";

/// What shows how the memory of these GPUs is.
std::string memory_report(const Subject& subject, const std::vector<const GpuRecord*>& gpus, std::string_view remark) {
  return fmt::format("{}   # {}", knowledge::memory_report_command(repair_of(subject, gpus)), remark);
}

/// A finding about the memory of these GPUs reads on where NVIDIA tells of their generation.
void read_on(const Subject& subject, const std::vector<const GpuRecord*>& gpus, Finding& finding) {
  if (repair_of(subject, gpus) == knowledge::MemoryRepair::pages) finding.link = kPageRetirement;
}

void ecc_now(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.ecc_uncorrected_volatile) > 0; });
  if (gpus.empty()) return;
  read_on(subject, gpus,
          report.say(fmt::format("{} had uncorrectable memory errors since the driver was loaded ({})",
                                 name_gpus(gpus, "has", "have"), value_of(gpus[0]->sample.ecc_uncorrected_volatile)),
                     {reset_command(gpus), memory_report(subject, gpus, "if they come back, replace the GPU")}));
}

void ecc_ever(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return value_of(gpu.sample.ecc_uncorrected_aggregate) > 0 && value_of(gpu.sample.ecc_uncorrected_volatile) == 0;
  });
  if (gpus.empty()) return;
  read_on(subject, gpus,
          report.say(fmt::format("{} had {} uncorrectable memory errors before the driver was loaded",
                                 name_gpus(gpus, "has", "have"), value_of(gpus[0]->sample.ecc_uncorrected_aggregate))));
}

void ecc_corrected(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(
      subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.ecc_corrected_volatile) >= kManyCorrected; });
  if (gpus.empty()) return;
  read_on(subject, gpus,
          report.say(fmt::format("{} corrected {} memory errors since the driver was loaded", name_gpus(gpus),
                                 value_of(gpus[0]->sample.ecc_corrected_volatile)),
                     {memory_report(subject, gpus, "watch whether it grows")}));
}

void ecc_off(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return gpu.gpu.ecc_enabled == false && is_server_gpu(gpu.gpu); });
  if (gpus.empty()) return;
  report.say(fmt::format("ECC is off on {} ({})", name_gpus(gpus), gpus[0]->gpu.name),
             {"sudo nvidia-smi -e 1", "sudo reboot"});
}

void remap_pending(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.remapped_rows_pending) > 0; });
  if (gpus.empty()) return;
  report.say(fmt::format("{} will replace memory rows at the next reset", name_gpus(gpus)), {reset_command(gpus)});
}

void remap_failed(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.remapped_rows_failed) > 0; });
  if (gpus.empty()) return;
  report.say(fmt::format("{} could not replace a broken memory row: replace the GPU", name_gpus(gpus)),
             {"[@nvidia] take it out of service; nvidia-bug-report.sh; ask the vendor for a replacement"});
}

void no_spare_rows(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return gpu.sample.remap_availability && value_of(gpu.sample.remap_availability->none) > 0 &&
           value_of(gpu.sample.remapped_rows_failed) == 0;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} {} memory banks without spare rows left", name_gpus(gpus, "has", "have"),
                         value_of(gpus[0]->sample.remap_availability->none)),
             {"plan its replacement: the next error in those banks cannot be repaired"});
}

void retire_pending(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.retired_pages_pending) > 0; });
  if (gpus.empty()) return;
  report.say(fmt::format("{} will retire memory pages when the driver is reloaded", name_gpus(gpus)),
             {reset_command(gpus)});
}

void many_retired(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return value_of(gpu.sample.retired_pages_single_bit) + value_of(gpu.sample.retired_pages_double_bit) >=
           kManyRetiredPages;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} retired {} or more memory pages", name_gpus(gpus, "has", "have"), kManyRetiredPages),
             {"[@nvidia] ask the vendor for a replacement: that is NVIDIA's criterion"});
}

bool is_held_back(const GpuRecord& gpu, std::initializer_list<ThrottleReason> by) {
  if (!gpu.sample.throttle_reasons) return false;
  return std::ranges::any_of(*gpu.sample.throttle_reasons,
                             [&](ThrottleReason reason) { return std::ranges::find(by, reason) != by.end(); });
}

void hardware_slowdown(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return is_held_back(
        gpu, {ThrottleReason::hw_slowdown, ThrottleReason::hw_thermal_slowdown, ThrottleReason::hw_power_brake});
  });
  if (gpus.empty()) return;
  const bool brake = is_held_back(*gpus[0], {ThrottleReason::hw_power_brake});
  report.say(
      fmt::format("the hardware holds back the clocks of {} ({})", name_gpus(gpus), brake ? "power brake" : "slowdown"),
      {brake ? "check the power supplies and the power cables" : "check fans, airflow and power cables",
       "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"});
}

void thermal_slowdown(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return is_held_back(gpu, {ThrottleReason::sw_thermal_slowdown}) &&
           !is_held_back(gpu, {ThrottleReason::hw_slowdown, ThrottleReason::hw_thermal_slowdown});
  });
  if (gpus.empty()) return;
  report.say(fmt::format("the driver holds back the clocks of {} because it is too hot ({} C)", name_gpus(gpus),
                         gpus[0]->sample.temperature ? gpus[0]->sample.temperature->value : 0),
             {"check fans and airflow", "nvidia-smi -q -d TEMPERATURE"});
}

void hot(const Subject& subject, Report& report) {
  constexpr std::int64_t kMargin = 3;
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) {
    const auto& limit = gpu.gpu.temperature_slowdown;
    return gpu.sample.temperature && limit && static_cast<std::int64_t>(limit->value) > 0 &&
           static_cast<std::int64_t>(gpu.sample.temperature->value) + kMargin >=
               static_cast<std::int64_t>(limit->value) &&
           !is_held_back(gpu, {ThrottleReason::sw_thermal_slowdown, ThrottleReason::hw_slowdown,
                               ThrottleReason::hw_thermal_slowdown});
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} {} C, which slows down at {} C", name_gpus(gpus, "has", "have"),
                         gpus[0]->sample.temperature->value, gpus[0]->gpu.temperature_slowdown->value),
             {"check fans and airflow"});
}

void memory_hot(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return gpu.sample.temperature_memory && gpu.gpu.temperature_memory_max &&
           gpu.gpu.temperature_memory_max->value > 0 &&
           *gpu.sample.temperature_memory >= *gpu.gpu.temperature_memory_max;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("the memory of {} has {} C; its limit for full speed is {} C", name_gpus(gpus),
                         gpus[0]->sample.temperature_memory->value, gpus[0]->gpu.temperature_memory_max->value),
             {"check airflow; on consumer boards, the thermal pads"});
}

void power_lowered(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return gpu.sample.power_limit && gpu.gpu.power_limit_default && gpu.gpu.power_limit_default->value > 0 &&
           gpu.sample.power_limit->value * 100 < gpu.gpu.power_limit_default->value * 95;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} limited to {} W of {} W", name_gpus(gpus, "is", "are"),
                         gpus[0]->sample.power_limit->value / 1000, gpus[0]->gpu.power_limit_default->value / 1000));
}

void fan_stopped(const Subject& subject, Report& report) {
  constexpr std::int64_t kWarm = 75;
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    const bool stopped = gpu.sample.fan_speed && gpu.sample.fan_speed->value == 0;
    return stopped && gpu.sample.temperature && static_cast<std::int64_t>(gpu.sample.temperature->value) >= kWarm;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("the fan of {} stands still at {} C", name_gpus(gpus), gpus[0]->sample.temperature->value),
             {"check the fan and its cable; stop the load"});
}

void narrow_link(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) {
    return gpu.sample.pcie_width && gpu.gpu.pcie_width_max && gpu.sample.pcie_width->value > 0 &&
           gpu.sample.pcie_width->value < gpu.gpu.pcie_width_max->value && !has_virtual_link(subject, gpu);
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} on x{} of x{} PCIe lanes", name_gpus(gpus, "runs", "run"),
                         gpus[0]->sample.pcie_width->value, gpus[0]->gpu.pcie_width_max->value),
             {"[@bus] reseat the card, or choose a slot with all lanes (the board's manual, lspci -vv)"});
}

void slow_link(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) {
    const bool loaded = gpu.sample.utilization_gpu && gpu.sample.utilization_gpu->value >= kLoaded;
    return loaded && !has_virtual_link(subject, gpu) && gpu.sample.pcie_generation && gpu.gpu.pcie_generation_max &&
           gpu.sample.pcie_generation->value < gpu.gpu.pcie_generation_max->value;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} with PCIe {} under load, where {} is possible", name_gpus(gpus, "works", "work"),
                         gpus[0]->sample.pcie_generation->value, gpus[0]->gpu.pcie_generation_max->value),
             {"check riser and slot; set the slot's speed in the firmware setup"});
}

void replays(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.pcie_replays) >= kManyReplays; });
  if (gpus.empty()) return;
  report.say(fmt::format("{} repeated {} PCIe packets", name_gpus(gpus), value_of(gpus[0]->sample.pcie_replays)),
             {"reseat the card; replace the riser", "sudo dmesg | grep -i aer"});
}

constexpr auto kHealthChecks = std::to_array<Check>({
    {"row-remap-failed", Area::device, Severity::critical, "memory rows that could not be replaced",
     "The GPU's memory is broken for good.", "NVIDIA GPU memory error management", kMemoryErrors, remap_failed},
    {"row-remap-pending", Area::device, Severity::error, "memory rows that wait for a reset",
     "Until then the broken row stays in use or its page is offline.", "NVIDIA GPU memory error management",
     kMemoryErrors, remap_pending},
    {"no-spare-rows", Area::device, Severity::warning, "banks without spare rows",
     "What breaks there next cannot be repaired.", "NVIDIA GPU memory error management", kMemoryErrors, no_spare_rows},
    {"page-retirement-pending", Area::device, Severity::error, "memory pages that wait for a reload",
     "Until then programs may be given a broken page.", "NVIDIA dynamic page retirement", kPageRetirement,
     retire_pending},
    {"many-pages-retired", Area::device, Severity::error, "how many pages were retired", "The memory is wearing out.",
     "NVIDIA dynamic page retirement, RMA criteria", kPageRetirement, many_retired},
    {"ecc-uncorrected", Area::device, Severity::error, "uncorrectable memory errors since the driver was loaded",
     "Programs were killed or computed with wrong numbers.", "nvml.h, ECC counters", kMemoryErrors, ecc_now,
     "row-remap-failed row-remap-pending page-retirement-pending"},
    {"ecc-uncorrected-earlier", Area::device, Severity::info, "uncorrectable memory errors in the GPU's life",
     "Repaired since; worth knowing when errors come back.", "nvml.h, ECC counters", kMemoryErrors, ecc_ever,
     "row-remap-failed row-remap-pending no-spare-rows page-retirement-pending many-pages-retired"},
    {"ecc-many-corrected", Area::device, Severity::warning, "corrected memory errors",
     "Many of them often come before the first that cannot be corrected.", "nvml.h, ECC counters; Xid 92",
     kMemoryErrors, ecc_corrected},
    {"ecc-off", Area::device, Severity::warning, "ECC on server GPUs",
     "Flipped bits go unnoticed into results and checkpoints.", "NVIDIA GPU memory error management", kMemoryErrors,
     ecc_off},
    {"hardware-slowdown", Area::device, Severity::error, "clocks held back by the hardware",
     "The GPU runs at a fraction of its speed.", "nvml.h, clocks event reasons", "", hardware_slowdown},
    {"thermal-slowdown", Area::device, Severity::warning, "clocks held back by heat",
     "The GPU is slower than it could be.", "nvml.h, clocks event reasons", "", thermal_slowdown},
    {"temperature-near-limit", Area::device, Severity::warning, "temperature against the slowdown threshold",
     "It will slow down soon.", "nvml.h, temperature thresholds", "", hot},
    {"memory-temperature-high", Area::device, Severity::warning, "memory temperature against its limit",
     "Memory clocks drop, errors become likely.", "nvml.h, NVML_TEMPERATURE_THRESHOLD_MEM_MAX", "", memory_hot},
    {"power-limit-lowered", Area::device, Severity::info, "the power limit against the default",
     "Someone chose it, or a tool did; the GPU is slower under full load.", "nvml.h, power management limit", "",
     power_lowered},
    {"fan-stopped", Area::device, Severity::error, "a fan that stands still on a hot GPU", "The GPU will overheat.",
     "nvml.h, fan speed", "", fan_stopped},
    {"pcie-width-reduced", Area::device, Severity::warning, "PCIe lanes against what GPU and slot can do",
     "Transfers to and from the host are slower in proportion.",
     "nvml.h, PCIe link; DCGM_FR_PCI_REPLAY_RATE's neighbours", "", narrow_link},
    {"pcie-slow-under-load", Area::device, Severity::warning, "PCIe generation under load",
     "At idle the link saves power; under load it should not.", "nvml.h, PCIe link", "", slow_link},
    {"pcie-replays", Area::device, Severity::warning, "repeated PCIe packets",
     "The link has errors: seating, riser, or signal.", "nvml.h, PCIe replay counter", "", replays},
});

}  // namespace

std::span<const Check> health_checks() { return kHealthChecks; }

}  // namespace gpuwarden::doctor
