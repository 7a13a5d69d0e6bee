// SPDX-License-Identifier: Apache-2.0
// The GPUs as they answer: state, modes, MIG, and who holds memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/failed_readings.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;
using facts::GpuState;
using knowledge::Version;

constexpr std::string_view kMigGuide = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/";

/// Memory that is held on a GPU where nobody is listed, beyond what the driver itself takes.
constexpr Bytes kNoticed(1ULL << 30U);
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

/// GPUs there are, none of them NVIDIA's.
bool is_of_another_maker(const Subject& subject) {
  const auto& gpus = subject.snapshot.gpus;
  return !gpus.empty() && std::ranges::all_of(gpus, [](const GpuRecord& gpu) {
    return !gpu.gpu.vendor.empty() && gpu.gpu.vendor != "NVIDIA";
  });
}

void none_seen(const Subject& subject, Report& report) {
  // A kernel log names the GPUs of its faults and no others.
  const auto& faults = subject.snapshot.kernel_faults;
  if (faults && !faults->empty()) return;
  if (!subject.snapshot.gpus.empty() && !is_of_another_maker(subject)) return;
  if (is_of_another_maker(subject)) {
    report.say(fmt::format("no GPU of NVIDIA's is seen, but {}: its driver is not judged here",
                           subject.snapshot.gpus[0].gpu.name),
               {"rocm-smi, amd-smi or xpu-smi tells how it is"});
    return;
  }
  report.say(fmt::format("no GPU{} is seen; what was judged is the software alone",
                         driver_of(subject) ? "" : " and no NVIDIA driver"),
             {"lspci -nn | grep -i -E 'nvidia|3d|vga'   # is one on the bus?"});
}

void mac(const Subject& subject, Report& report) {
  if (platform_of(subject) == knowledge::Platform::macos)
    report.say("this is macOS, which has no CUDA; what was judged is the software alone",
               knowledge::steps_without_cuda());
}

void needs_reset(const Subject& subject, Report& report) {
  const auto gpus = in_state(subject, GpuState::needs_reset);
  if (!gpus.empty()) report.say(fmt::format("{} must be reset before use", name_gpus(gpus)), {reset_command(gpus)});
}

/// Silent GPUs and such as answer nothing but errors share a state: what was seen tells them apart, a finding for each.
void not_answering(const Subject& subject, Report& report) {
  if (subject.snapshot.problem) return;  // the driver's checks speak
  std::map<std::string, std::vector<const GpuRecord*>> by_cause;
  for (const GpuRecord* gpu : in_state(subject, GpuState::not_answering)) by_cause[gpu->cause].push_back(gpu);
  for (const auto& [cause, gpus] : by_cause) {
    const std::string who = name_gpus(gpus, "gives", "give");
    report.say(cause.empty() ? who + " no usable answer" : fmt::format("{} no usable answer: {}", who, cause),
               {"sudo dmesg | grep -i -E 'xid|nvrm' | tail -20", "sudo reboot"});
  }
}

void reading_failed(const Subject& subject, Report& report) {
  for (const GpuRecord* gpu : gpus_that(subject, facts::has_failed_reading))
    report.say(fmt::format("GPU {}: {}", gpu->gpu.index.value, gpu->cause),
               {"sudo dmesg | grep -i -E 'xid|nvrm' | tail -20",
                "shut the machine down, look at the fan and the power cables, and start it cold"});
}

void faulty(const Subject& subject, Report& report) {
  for (const GpuRecord* gpu : in_state(subject, GpuState::faulty)) {
    report.say(fmt::format("GPU {}: {}", gpu->gpu.index.value, gpu->cause),
               {"sudo dmesg | grep -i -E 'xid|nvrm' | tail -20", "sudo reboot"});
  }
}

void processes_unreadable(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) { return gpu.processes_unreadable; });
  if (gpus.empty()) return;
  report.say(fmt::format("the processes of {} cannot be read: who uses them is not known", name_gpus(gpus)),
             {"nvidia-smi --query-compute-apps=pid,name,gpu_uuid --format=csv   # does it show more?",
              "sudo dmesg | grep -i -E 'xid|nvrm' | tail -20"});
}

void no_permission(const Subject& subject, Report& report) {
  const auto gpus = in_state(subject, GpuState::no_permission);
  if (gpus.empty()) return;
  report.say(fmt::format("this user may not read {}", name_gpus(gpus)),
             {"ls -l /dev/nvidia*", "[@nvidia] in a container or job: ask for the GPU (--gpus, srun --gpus)"});
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
  const auto gpus = gpus_that(
      subject, [](const GpuRecord& gpu) { return facts::lacks_instances(gpu) && gpu.gpu.mig_pending == true; });
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
                                                         {"RTX PRO 6000", {575, 51, 3}},
                                                         {"RTX PRO 5000", {575, 57, 8}},
                                                         {"RTX PRO 4500", {575, 64, 0}}});

void mig_driver(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (!driver) return;
  for (const auto* gpu : gpus_that(subject, [](const GpuRecord& one) { return one.gpu.mig_enabled == true; })) {
    const auto* const row = std::ranges::find_if(
        kMigMinimums, [&](const MigMinimum& one) { return knowledge::has_words(gpu->gpu.name, one.name); });
    if (row == kMigMinimums.end() || *driver >= row->driver) continue;
    report.say(fmt::format("MIG on {} needs driver {}; {} is installed", gpu->gpu.name, to_string(row->driver),
                           to_string(*driver)),
               plan_driver(subject, report, {.at_least = row->driver.major}));
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
             {"sudo fuser -v /dev/nvidia*   # root sees all", reset_command(gpus)});
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
      .say(fmt::format("persistence is off on {}: the driver unloads its state whenever no process uses the GPU",
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
        fmt::format("'{}' is not in this version's knowledge base; what depends on its architecture was not judged",
                    gpu->gpu.name),
        {"gpuwarden doctor --knowledge FILE"});
    return;
  }
}

constexpr auto kDeviceChecks = std::to_array<Check>({
    {"no-gpu", Area::device, Severity::info, "whether there is a GPU", "Most checks are about GPUs.", "gpuwarden list",
     "", none_seen,
     "purpose-without-gpu driver-missing machine-without-cuda container-without-gpu container-given-no-gpu "
     "driver-in-trouble driver-library-mismatch nvml-unknown-error told-open-module-needed told-legacy-gpu "
     "told-other-driver told-init-failed told-no-memory-window told-no-gpu-served told-key-rejected told-build-failed "
     "told-module-missing told-container-needs-cuda told-container-without-toolkit macos"},
    {"macos", Area::system, Severity::info, "whether the machine is a Mac", "Most checks are about NVIDIA's GPUs.",
     "release notes of CUDA 11.0: no more applications on macOS", "https://docs.pytorch.org/docs/stable/notes/mps.html",
     mac, "reported-cpu-build reported-not-available reported-framework-without-gpu purpose-without-gpu"},
    {"gpu-lost", Area::device, Severity::critical, "GPUs that fell off the bus",
     "Nothing on such a GPU works until the machine is restarted.", "nvml.h NVML_ERROR_GPU_IS_LOST; Xid 79", kXids,
     lost},
    {"gpu-needs-reset", Area::device, Severity::critical, "GPUs that ask for a reset",
     "Such a GPU takes no new work before.", "nvml.h NVML_ERROR_RESET_REQUIRED", kXids, needs_reset},
    {"gpu-not-answering", Area::device, Severity::critical, "GPUs that do not answer in time, or with errors alone",
     "Programs that use such a GPU hang or fail.", "gpuwarden's own deadline (--timeout); nvml.h NVML_ERROR_UNKNOWN",
     kXids, not_answering},
    {"gpu-reading-failed", Area::device, Severity::error, "GPUs of which a sensor, fan or power reading failed",
     "Without its fan or its sensors a GPU slows down, or is damaged.", "nvidia-smi manual, ERR! beside N/A", "",
     reading_failed},
    {"gpu-faulty", Area::device, Severity::critical, "GPUs that report what cannot be true",
     "What else such a GPU says, or computes, is not to be trusted.", "range of each metric; UUIDs are unique", kXids,
     faulty},
    {"processes-unreadable", Area::device, Severity::warning, "GPUs whose processes cannot be listed",
     "Such a GPU never counts as free: gpuwarden hands it out with --allow-busy only.",
     "nvml.h, nvmlDeviceGetComputeRunningProcesses", "", processes_unreadable},
    {"gpu-not-permitted", Area::device, Severity::error, "GPUs that may not be read",
     "This user's programs cannot use it either.", "nvml.h NVML_ERROR_NO_PERMISSION", "", no_permission,
     "device-nodes-not-permitted device-nodes-blocked"},
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
    {"memory-held-by-nobody", Area::device, Severity::warning, "memory that no visible process holds",
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

std::span<const Check> device_checks() { return kDeviceChecks; }

}  // namespace gpuwarden::doctor
