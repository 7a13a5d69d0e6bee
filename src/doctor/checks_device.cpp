// SPDX-License-Identifier: Apache-2.0
// The GPUs' own health: state, memory repairs, temperature, power, PCIe, modes, and who holds memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/lore.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;
using facts::GpuState;
using facts::ThrottleReason;
using knowledge::Version;

constexpr std::string_view kMemoryErrors = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/";
constexpr std::string_view kXids = "https://docs.nvidia.com/deploy/xid-errors/";
constexpr std::string_view kMigGuide = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/";

/// A GPU whose memory has this many pages retired is to be replaced (source: NVIDIA dynamic page retirement, RMA
/// criteria: 60 pages).
constexpr std::uint64_t kManyRetiredPages = 60;
/// Corrected errors since the driver was loaded that are worth a look.
constexpr std::uint64_t kManyCorrected = 10'000;
/// Memory that is held on a GPU where nobody is listed, beyond what the driver itself takes.
constexpr Bytes kNoticed(1ULL << 30U);
/// Load under which a PCIe link has no reason to save power.
constexpr std::uint32_t kLoaded = 50;
constexpr std::uint64_t kManyReplays = 1000;

std::uint64_t value_of(const std::optional<Count>& count) { return count ? count->value : 0; }

std::string reset_command(const std::vector<const GpuRecord*>& gpus) {
  std::vector<std::string> indices;
  for (const auto* gpu : gpus) indices.push_back(std::to_string(gpu->gpu.index.value));
  return fmt::format("sudo nvidia-smi --gpu-reset -i {}   # after their processes have ended", join(indices, ","));
}

std::vector<const GpuRecord*> in_state(const Subject& subject, GpuState state) {
  return gpus_that(subject, [&](const GpuRecord& gpu) { return gpu.state == state; });
}

void lost(const Subject& subject, Report& report) {
  const auto gpus = in_state(subject, GpuState::lost);
  if (gpus.empty()) return;
  report.say(fmt::format("{} fell off the PCIe bus", name_gpus(gpus)),
             {"sudo dmesg | grep -i -E 'xid|nvrm' | tail -20", "sudo reboot",
              "if it comes back: check power cables, seating, cooling; then ask the vendor"});
}

void none_seen(const Subject& subject, Report& report) {
  if (!subject.snapshot.gpus.empty()) return;
  report.say("no GPU is seen; what was judged is the software alone",
             {"lspci -nn | grep -i -E 'nvidia|3d|vga'   # is one on the bus?"});
}

void needs_reset(const Subject& subject, Report& report) {
  const auto gpus = in_state(subject, GpuState::needs_reset);
  if (!gpus.empty()) report.say(fmt::format("{} must be reset before use", name_gpus(gpus)), {reset_command(gpus)});
}

void not_answering(const Subject& subject, Report& report) {
  const auto gpus = in_state(subject, GpuState::not_answering);
  if (gpus.empty() || gpus.size() == nvidia_gpus(subject).size()) return;  // all: the driver's check speaks
  report.say(fmt::format("{} answer", name_gpus(gpus, "does not", "do not")),
             {"sudo dmesg | grep -i -E 'xid|nvrm' | tail -20", "sudo reboot"});
}

void no_permission(const Subject& subject, Report& report) {
  const auto gpus = in_state(subject, GpuState::no_permission);
  if (gpus.empty()) return;
  report.say(fmt::format("this user may not read {}", name_gpus(gpus)),
             {"ls -l /dev/nvidia*", "in a container or job: ask for the GPU (--gpus, srun --gpus)"});
}

/// The worst Xid of each severity; 45 and 154 follow others and say nothing new.
void xids(const Subject& subject, Report& report, std::string_view severity) {
  if (!subject.snapshot.kernel_faults) return;
  std::vector<std::uint32_t> said;
  for (const auto& fault : *subject.snapshot.kernel_faults) {
    const auto* row = fault.kind == "xid" ? subject.knowledge.xid(static_cast<int>(fault.code)) : nullptr;
    if (row == nullptr || row->severity != severity || fault.code == 45 || fault.code == 154) continue;
    if (std::ranges::find(said, fault.code) != said.end()) continue;
    said.push_back(fault.code);
    const std::string where = fault.pci_bus_id ? " on " + *fault.pci_bus_id : "";
    report.say(fmt::format("Xid {}{}: {}", fault.code, where, row->description),
               {std::string(row->action_plain.empty() ? "gpuwarden diagnose --explain xid=" : row->action_plain),
                fmt::format("gpuwarden diagnose --explain xid={}", fault.code)});
  }
}

void xid_critical(const Subject& subject, Report& report) { xids(subject, report, "critical"); }
void xid_error(const Subject& subject, Report& report) { xids(subject, report, "error"); }
void xid_warning(const Subject& subject, Report& report) { xids(subject, report, "warning"); }

void sxid(const Subject& subject, Report& report) {
  if (!subject.snapshot.kernel_faults) return;
  for (const auto& fault : *subject.snapshot.kernel_faults) {
    if (fault.kind != "sxid") continue;
    const bool fatal = contains_ignoring_case(fault.text, "fatal") && !contains_ignoring_case(fault.text, "non-fatal");
    report.say(fatal ? Severity::critical : Severity::warning,
               fmt::format("NVSwitch reports SXid {}: {}", fault.code, printable(fault.text)),
               {"sudo systemctl restart nvidia-fabricmanager", "sudo reboot   # if it was fatal"});
    return;
  }
}

void ecc_now(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.ecc_uncorrected_volatile) > 0; });
  if (gpus.empty()) return;
  report.say(fmt::format("{} had uncorrectable memory errors since the driver was loaded ({})",
                         name_gpus(gpus, "has", "have"), value_of(gpus[0]->sample.ecc_uncorrected_volatile)),
             {reset_command(gpus), "nvidia-smi -q -d ECC,ROW_REMAPPER   # if they come back, replace the GPU"});
}

void ecc_ever(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return value_of(gpu.sample.ecc_uncorrected_aggregate) > 0 && value_of(gpu.sample.ecc_uncorrected_volatile) == 0;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} had {} uncorrectable memory errors before the driver was loaded",
                         name_gpus(gpus, "has", "have"), value_of(gpus[0]->sample.ecc_uncorrected_aggregate)));
}

void ecc_corrected(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(
      subject, [](const GpuRecord& gpu) { return value_of(gpu.sample.ecc_corrected_volatile) >= kManyCorrected; });
  if (gpus.empty()) return;
  report.say(fmt::format("{} corrected {} memory errors since the driver was loaded", name_gpus(gpus),
                         value_of(gpus[0]->sample.ecc_corrected_volatile)),
             {"nvidia-smi -q -d ECC,ROW_REMAPPER   # watch whether it grows"});
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
             {"take it out of service; nvidia-bug-report.sh; ask the vendor for a replacement"});
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
             {"ask the vendor for a replacement: that is NVIDIA's criterion"});
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
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return gpu.sample.pcie_width && gpu.gpu.pcie_width_max && gpu.sample.pcie_width->value > 0 &&
           gpu.sample.pcie_width->value < gpu.gpu.pcie_width_max->value;
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} on x{} of x{} PCIe lanes", name_gpus(gpus, "runs", "run"),
                         gpus[0]->sample.pcie_width->value, gpus[0]->gpu.pcie_width_max->value),
             {"reseat the card, or choose a slot with all lanes (the board's manual, lspci -vv)"});
}

void slow_link(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    const bool loaded = gpu.sample.utilization_gpu && gpu.sample.utilization_gpu->value >= kLoaded;
    return loaded && gpu.sample.pcie_generation && gpu.gpu.pcie_generation_max &&
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

void prohibited(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return gpu.gpu.compute_mode == facts::ComputeMode::prohibited; });
  if (gpus.empty()) return;
  report.say(fmt::format("compute mode Prohibited: no program can use {}", name_gpus(gpus)), {"sudo nvidia-smi -c 0"});
}

void exclusive(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return gpu.gpu.compute_mode == facts::ComputeMode::exclusive_process ||
           gpu.gpu.compute_mode == facts::ComputeMode::exclusive_thread;
  });
  if (gpus.empty()) return;
  report.say(
      fmt::format("{} one process at a time (compute mode Exclusive Process)", name_gpus(gpus, "takes", "take")));
}

void mig_pending(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return gpu.gpu.mig_enabled && gpu.gpu.mig_pending && *gpu.gpu.mig_enabled != *gpu.gpu.mig_pending;
  });
  if (gpus.empty()) return;
  report.say(
      fmt::format("MIG will be {} on {} after a reset", *gpus[0]->gpu.mig_pending ? "on" : "off", name_gpus(gpus)),
      {reset_command(gpus)});
}

void mig_empty(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return gpu.gpu.mig_enabled == true && gpu.gpu.mig_pending == true && gpu.mig_devices.empty();
  });
  if (gpus.empty()) return;
  report.say(
      fmt::format("MIG is on but {} no instances: CUDA sees no device there", name_gpus(gpus, "has", "have")),
      {"sudo nvidia-smi mig -cgi 0 -C   # one instance with everything", "sudo nvidia-smi -mig 0   # or without MIG"});
}

struct MigMinimum {
  std::string_view name;
  Version driver;
};

/// source: NVIDIA MIG user guide (620), supported GPUs
constexpr auto kMigMinimums = std::to_array<MigMinimum>({{"A100", {450, 80, 2}},
                                                         {"A30", {460, 73, 1}},
                                                         {"H100", {525, 85, 12}},
                                                         {"H200", {550, 90, 7}},
                                                         {"H20", {535, 161, 7}},
                                                         {"GB200", {570, 133, 20}},
                                                         {"B200", {570, 133, 20}},
                                                         {"GB300", {595, 58, 3}},
                                                         {"B300", {580, 82, 7}},
                                                         {"RTX PRO 6000", {575, 51, 3}}});

void mig_driver(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (!driver) return;
  for (const auto* gpu : gpus_that(subject, [](const GpuRecord& one) { return one.gpu.mig_enabled == true; })) {
    const auto* const row =
        std::ranges::find_if(kMigMinimums, [&](const MigMinimum& one) { return gpu->gpu.name.contains(one.name); });
    if (row == kMigMinimums.end() || *driver >= row->driver) continue;
    report.say(fmt::format("MIG on {} needs driver {}; {} is installed", gpu->gpu.name, to_string(row->driver),
                           to_string(*driver)),
               {fmt::format("gpuwarden driver plan --branch {}", row->driver.major)});
    return;
  }
}

bool is_idle_but_full(const GpuRecord& gpu) {
  return gpu.processes && gpu.sample.memory_used && *gpu.sample.memory_used > kNoticed &&
         !gpu.gpu.mig_enabled.value_or(false) && std::ranges::none_of(*gpu.processes, &facts::GpuProcess::listed);
}

void held_by_nobody(const Subject& subject, Report& report) {
  // Inside WSL and containers other people's processes are not listed.
  if (is_wsl(subject) || is_container(subject)) return;
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return is_idle_but_full(gpu) && gpu.processes->empty(); });
  if (gpus.empty()) return;
  report.say(fmt::format("{} of memory are held on {}, by no process that can be seen",
                         format_size(*gpus[0]->sample.memory_used), name_gpus(gpus)),
             {"sudo fuser -v /dev/nvidia*   # as root one sees all", reset_command(gpus)});
}

void held_by_unlisted(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return is_idle_but_full(gpu) && !gpu.processes->empty(); });
  if (gpus.empty()) return;
  const auto& holder = gpus[0]->processes->front();
  report.say(fmt::format("{} of memory on {} belong to a process that NVML does not list: pid {} ({})",
                         format_size(*gpus[0]->sample.memory_used), name_gpus(gpus), holder.pid.value,
                         holder.command.value_or("?")),
             {fmt::format("kill {}   # if it is a leftover", holder.pid.value)});
}

void persistence_off(const Subject& subject, Report& report) {
  const auto* daemon = facts::find_service(subject.environment, "nvidia-persistenced");
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return gpu.gpu.persistence == false && is_server_gpu(gpu.gpu); });
  if (gpus.empty() || (daemon != nullptr && daemon->state == "running") || is_wsl(subject)) return;
  report
      .say(fmt::format("persistence is off on {}: the driver unloads its state whenever nobody uses the GPU",
                       name_gpus(gpus)),
           {enable_service("nvidia-persistenced")})
      .safe = true;
}

void display_active(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return gpu.gpu.display_active == true && is_server_gpu(gpu.gpu); });
  if (gpus.empty()) return;
  report.say(fmt::format("a display runs on {} ({})", name_gpus(gpus), gpus[0]->gpu.name));
}

void unknown_model(const Subject& subject, Report& report) {
  for (const auto* gpu : nvidia_gpus(subject)) {
    if (gpu->gpu.name.empty() || gpu->gpu.name == "unknown GPU" || architecture_of(subject, gpu->gpu)) continue;
    report.say(
        fmt::format("'{}' is not in this program's knowledge base; what depends on its architecture was not judged",
                    gpu->gpu.name),
        {"gpuwarden doctor --knowledge FILE"});
    return;
  }
}

constexpr auto kChecks = std::to_array<Check>({
    {"no-gpu", Area::device, Severity::info, "whether there is a GPU", "Most checks are about GPUs.", "gpuwarden list",
     "", none_seen, "purpose-without-gpu driver-missing"},
    {"gpu-lost", Area::device, Severity::critical, "GPUs that fell off the bus",
     "Nothing on that GPU works until the machine is restarted.", "nvml.h NVML_ERROR_GPU_IS_LOST; Xid 79", kXids, lost},
    {"gpu-needs-reset", Area::device, Severity::critical, "GPUs that ask for a reset", "It takes no new work before.",
     "nvml.h NVML_ERROR_RESET_REQUIRED", kXids, needs_reset},
    {"gpu-not-answering", Area::device, Severity::critical, "GPUs that do not answer in time",
     "Programs that touch it hang.", "gpuwarden's own deadline (--timeout)", kXids, not_answering},
    {"gpu-not-permitted", Area::device, Severity::error, "GPUs that may not be read",
     "This user's programs cannot use it either.", "nvml.h NVML_ERROR_NO_PERMISSION", "", no_permission,
     "device-nodes-not-permitted device-nodes-blocked"},
    {"xid-critical", Area::device, Severity::critical, "Xid errors that need hands",
     "The driver reported a fault of the hardware.", "NVIDIA Xid catalog (xid table)", kXids, xid_critical, "gpu-lost"},
    {"xid-error", Area::device, Severity::error, "Xid errors that need a reset",
     "Work on that GPU was or will be lost.", "NVIDIA Xid catalog (xid table)", kXids, xid_error},
    {"xid-application", Area::device, Severity::warning, "Xid errors that programs cause",
     "A program was stopped; mostly its own bug.", "NVIDIA Xid catalog (xid table)", kXids, xid_warning},
    {"sxid", Area::device, Severity::warning, "NVSwitch errors", "They stop traffic between GPUs.",
     "NVIDIA fabric manager user guide, SXid errors", kXids, sxid},
    {"row-remap-failed", Area::device, Severity::critical, "memory rows that could not be replaced",
     "The GPU's memory is broken for good.", "NVIDIA GPU memory error management", kMemoryErrors, remap_failed},
    {"row-remap-pending", Area::device, Severity::error, "memory rows that wait for a reset",
     "Until then the broken row stays in use or its page is offline.", "NVIDIA GPU memory error management",
     kMemoryErrors, remap_pending},
    {"no-spare-rows", Area::device, Severity::warning, "banks without spare rows",
     "What breaks there next cannot be repaired.", "NVIDIA GPU memory error management", kMemoryErrors, no_spare_rows},
    {"page-retirement-pending", Area::device, Severity::error, "memory pages that wait for a reload",
     "Until then programs may be given a broken page.", "NVIDIA dynamic page retirement",
     "https://docs.nvidia.com/deploy/dynamic-page-retirement/", retire_pending},
    {"many-pages-retired", Area::device, Severity::error, "how many pages were retired", "The memory is wearing out.",
     "NVIDIA dynamic page retirement, RMA criteria", "https://docs.nvidia.com/deploy/dynamic-page-retirement/",
     many_retired},
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
    {"compute-prohibited", Area::device, Severity::error, "compute mode Prohibited",
     "CUDA refuses every context there.", "nvml.h NVML_COMPUTEMODE_PROHIBITED", "", prohibited},
    {"compute-exclusive", Area::device, Severity::info, "compute mode Exclusive Process",
     "A second program gets \"all CUDA-capable devices are busy or unavailable\".",
     "nvml.h NVML_COMPUTEMODE_EXCLUSIVE_PROCESS", "", exclusive},
    {"mig-change-pending", Area::device, Severity::warning, "MIG modes that wait for a reset",
     "Until then the GPU is as before.", "NVIDIA MIG user guide", kMigGuide, mig_pending},
    {"mig-without-instances", Area::device, Severity::error, "MIG without instances",
     "CUDA finds no device on that GPU.", "NVIDIA MIG user guide", kMigGuide, mig_empty},
    {"mig-driver-too-old", Area::device, Severity::error, "MIG against the driver",
     "MIG of that GPU came with a later driver.", "NVIDIA MIG user guide, supported GPUs", kMigGuide, mig_driver},
    {"memory-held-by-unlisted-process", Area::device, Severity::warning, "memory of processes that NVML does not list",
     "The memory is not free for others.", "/proc/*/fd", "", held_by_unlisted},
    {"memory-held-by-nobody", Area::device, Severity::warning, "memory that nobody seems to hold",
     "Another user's, another container's, or a dead process's.", "nvml.h, process lists", "", held_by_nobody},
    {"persistence-off", Area::device, Severity::info, "persistence on server GPUs",
     "The first CUDA call takes seconds, and settings are lost.", "NVIDIA driver persistence",
     "https://docs.nvidia.com/deploy/driver-persistence/", persistence_off},
    {"display-on-server-gpu", Area::device, Severity::info, "a display on a server GPU",
     "It takes memory, and long kernels can be stopped by its watchdog.", "DCGM_FR_GRAPHICS_PROCESSES", "",
     display_active},
    {"gpu-unknown", Area::device, Severity::info, "models that came after this program",
     "New GPUs are judged by what they say themselves.", "gpuwarden's knowledge base", "", unknown_model},
});

}  // namespace

std::span<const Check> device_checks() { return kChecks; }

}  // namespace gpuwarden::doctor
