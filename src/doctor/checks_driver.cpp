// SPDX-License-Identifier: Apache-2.0
// The kernel driver: is it there, is it one, does it fit these GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/driver_branches.hpp"
#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::DeviceNode;
using facts::GpuRecord;
using facts::ModuleFlavour;
using ProblemKind = facts::DriverProblem::Kind;

constexpr std::string_view kKernelModules =
    "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html";
constexpr std::string_view kMatrix =
    "https://docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html";

bool has_loaded(const Subject& subject, std::string_view module) {
  return std::ranges::find(subject.environment.driver.loaded_modules, module) !=
         subject.environment.driver.loaded_modules.end();
}

bool knows_modules(const Subject& subject) { return !subject.environment.driver.loaded_modules.empty(); }

std::vector<const GpuRecord*> gpus_for_open_module(const Subject& subject) {
  return gpus_that(subject, [&](const GpuRecord& gpu) { return needs_open_module(subject, gpu.gpu); });
}

std::vector<const GpuRecord*> gpus_for_proprietary_module(const Subject& subject) {
  return gpus_that(subject, [&](const GpuRecord& gpu) { return needs_proprietary_module(subject, gpu.gpu); });
}

void nouveau_loaded(const Subject& subject, Report& report) {
  if (!has_loaded(subject, "nouveau") || nvidia_gpus(subject).empty()) return;
  report.say("the kernel runs nouveau, which keeps NVIDIA's driver from the GPUs",
             {"printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/nouveau-off.conf",
              rebuild_initramfs(subject.environment), "sudo reboot"});
}

void no_driver(const Subject& subject, Report& report) {
  const auto idle = gpus_that(subject, [](const GpuRecord& gpu) { return gpu.state == facts::GpuState::disabled; });
  if (idle.empty() || driver_of(subject) || is_wsl(subject)) return;
  if (subject.environment.driver.on_disk_version || subject.environment.driver.package) return;
  report.say(fmt::format("no NVIDIA driver is installed for {}", name_gpus(idle)), install_driver(subject, report, {}));
}

void not_loaded(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  if (!driver.on_disk_version || driver.loaded_version || has_loaded(subject, "nvidia")) return;
  if (nvidia_gpus(subject).empty()) return;
  report.say(fmt::format("driver {} is installed but not loaded", *driver.on_disk_version),
             {"sudo modprobe nvidia", "sudo dmesg | grep -i -E 'nvrm|nvidia'   # if that fails, the reason is here"});
}

void module_kept_away(const Subject& subject, Report& report) {
  const auto& off = subject.environment.driver.blacklisted;
  if (std::ranges::find(off, "nvidia") == off.end() || subject.environment.driver.loaded_version) return;
  report.say("modprobe.d forbids the nvidia module",
             {"grep -rn 'blacklist nvidia' /etc/modprobe.d /lib/modprobe.d   # remove that line",
              rebuild_initramfs(subject.environment), "sudo reboot"});
}

/// The driver's problem where it is of this kind, else nullptr.
const facts::DriverProblem* problem_of(const Subject& subject, ProblemKind kind) {
  const auto& problem = subject.snapshot.problem;
  return problem && problem->kind == kind ? &*problem : nullptr;
}

void library_differs(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  const auto* told = problem_of(subject, ProblemKind::mismatch);
  std::string library = driver.library_version.value_or("");
  std::string module = driver.loaded_version.value_or(subject.snapshot.kernel_module_version.value_or(""));
  if (told == nullptr && (library.empty() || module.empty() || library == module || is_wsl(subject))) return;
  const std::string title =
      told != nullptr ? told->message
                      : fmt::format("the libraries are of driver {}, the loaded kernel module is {}", library, module);
  report.say(title, reload_driver(subject.environment));
}

void waiting_for_reload(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  if (!driver.loaded_version || !driver.on_disk_version || *driver.loaded_version == *driver.on_disk_version) return;
  report.say(fmt::format("driver {} is loaded, {} lies on disk and will come with the next boot",
                         *driver.loaded_version, *driver.on_disk_version),
             reload_driver(subject.environment));
}

void does_not_answer(const Subject& subject, Report& report) {
  const auto* problem = problem_of(subject, ProblemKind::timed_out);
  if (problem == nullptr) return;
  report.say(problem->message,
             {"sudo dmesg | grep -i -E 'nvrm|xid' | tail -20", "sudo reboot   # a hung driver does not come back"});
}

void library_broken(const Subject& subject, Report& report) {
  for (const ProblemKind kind : {ProblemKind::crashed, ProblemKind::wrong_library, ProblemKind::impossible}) {
    const auto* problem = problem_of(subject, kind);
    if (problem == nullptr) continue;
    std::vector<std::string> steps{"sudo dmesg | grep -i -E 'nvrm|xid|segfault' | tail -20"};
    if (!problem->hint.empty()) steps.push_back(problem->hint);
    report.say(problem->message, std::move(steps));
  }
}

/// A text in which a GPU answers may quote a failed call of another time or place, and a driver is no matter of a
/// machine with other makers' GPUs.
bool is_told_dead(const Subject& subject) {
  using enum ProblemKind;
  const auto& problem = subject.snapshot.problem;
  const bool other_maker = std::ranges::any_of(subject.snapshot.gpus, [](const GpuRecord& gpu) {
    return gpu.gpu.vendor != "NVIDIA" && !gpu.gpu.vendor.empty();
  });
  if (!problem || other_maker || std::ranges::any_of(subject.snapshot.gpus, facts::is_usable)) return false;
  return problem->kind == not_loaded || problem->kind == no_library || problem->kind == no_devices ||
         problem->kind == no_permission || (problem->kind == other && problem->code == ErrorCode::unavailable);
}

std::vector<std::string> steps_for(const Subject& subject, const facts::DriverProblem& problem, Report& report) {
  using enum ProblemKind;
  std::vector<std::string> steps;
  if (problem.kind == not_loaded)
    steps = {"sudo modprobe nvidia", "sudo dmesg | grep -i -E 'nvrm|nvidia' | tail -20   # if that fails, why",
             "dkms status   # is there a module for the running kernel?"};
  if (problem.kind == no_library && is_container(subject))
    steps = {"docker run --gpus all ...   # the toolkit mounts the driver's libraries"};
  else if (problem.kind == no_library)
    steps = plan_driver(subject, report, {});
  if (problem.kind == no_devices)
    steps = {"sudo dmesg | grep -i nvrm | tail -20   # why the driver takes no GPU", "lspci -nnk -d 10de:"};
  if (problem.kind == no_permission) steps = {"ls -l /dev/nvidia*", "sudo usermod -aG video,render $USER"};
  if (problem.kind == other) steps = {"sudo dmesg | grep -i -E 'nvrm|xid' | tail -20"};
  if (!problem.hint.empty() && steps.empty()) steps.push_back(problem.hint);
  if (std::string more = send_also(subject); !more.empty()) steps.push_back(std::move(more));
  return steps;
}

void driver_in_trouble(const Subject& subject, Report& report) {
  const auto& problem = subject.snapshot.problem;
  if (is_elsewhere(subject)) {
    if (is_told_dead(subject)) report.say(problem->message, steps_for(subject, *problem, report));
    return;
  }
  if (!problem) return;
  const bool forbidden = problem->kind == ProblemKind::no_permission && nvidia_gpus(subject).empty();
  if (problem->kind != ProblemKind::other && problem->kind != ProblemKind::no_devices && !forbidden) return;
  std::vector<std::string> steps{"sudo dmesg | grep -i -E 'nvrm|xid' | tail -20"};
  if (!problem->hint.empty()) steps.push_back(problem->hint);
  report.say(problem->message, std::move(steps));
}

void reading_has_gaps(const Subject& subject, Report& report) {
  for (const facts::ReadingGap& gap : subject.snapshot.gaps)
    report.say(gap.problem.message, {"sudo dmesg | grep -i -E 'nvrm|xid' | tail -20"});
}

void unknown_error(const Subject& subject, Report& report) {
  const auto* problem = problem_of(subject, ProblemKind::unknown_error);
  if (problem == nullptr) return;
  if (is_container(subject))
    report.say("NVML says \"Unknown Error\": this container has lost its device rules",
               {"restart the container", "docker run --device nvidia.com/gpu=all ...   # CDI does not lose them"});
  else
    report.say(problem->message, {"sudo dmesg | grep -i -E 'nvrm|xid' | tail -20", "sudo reboot"});
}

void proprietary_on_blackwell(const Subject& subject, Report& report) {
  const auto gpus = gpus_for_open_module(subject);
  const Doubt doubt = doubt_of(subject, gpus);
  if (gpus.empty() || doubt == Doubt::disproved || subject.environment.driver.flavour != ModuleFlavour::proprietary)
    return;
  report.say(severity_with(doubt, Severity::critical),
             fmt::format("{} the open kernel module ({}); the proprietary one is installed{}",
                         name_gpus(gpus, "needs", "need"), gpus[0]->gpu.name, text_of(doubt)),
             install_driver(subject, report, no_older_than(subject, report, driver_branch(subject).value_or(0))));
}

void open_on_old_gpus(const Subject& subject, Report& report) {
  const auto gpus = gpus_for_proprietary_module(subject);
  const Doubt doubt = doubt_of(subject, gpus);
  if (gpus.empty() || doubt == Doubt::disproved || subject.environment.driver.flavour != ModuleFlavour::open) return;
  report.say(severity_with(doubt, Severity::critical),
             fmt::format("{} the proprietary kernel module ({}), which the open one does not replace{}",
                         name_gpus(gpus, "needs", "need"), gpus[0]->gpu.name, text_of(doubt)),
             plan_driver(subject, report,
                         no_older_than(subject, report, driver_branch(subject).value_or(0),
                                       {.module = facts::ModuleFlavour::proprietary})));
}

void no_common_module(const Subject& subject, Report& report) {
  const auto old_gpus = gpus_for_proprietary_module(subject);
  const auto new_gpus = gpus_for_open_module(subject);
  // The two modules are Linux'.
  if (old_gpus.empty() || new_gpus.empty() || platform_of(subject) != knowledge::Platform::linux_own) return;
  report.say(fmt::format("{} the proprietary kernel module and {} the open one: no driver serves both",
                         name_gpus(old_gpus, "needs", "need"), name_gpus(new_gpus)),
             {"move one of the two generations to another machine, or pass one through to a virtual machine"});
}

/// A module is there for the kernel, and none is loaded: under Secure Boot the kernel may not trust DKMS's key, which
/// only the kernel's log says in so many words (source: deepin-community/kernel#2144; mokutil(1)).
void key_may_be_refused(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  const auto& kernel = subject.environment.host.kernel;
  const auto& built = driver.dkms_built_for;
  const bool there = kernel && !kernel->empty() ? std::ranges::find(built, *kernel) != built.end() : !built.empty();
  if (!is_told_dead(subject) || !there) return;
  report.say(fmt::format("Secure Boot is on, and the module of driver {} that DKMS built is not loaded: the kernel may "
                         "refuse the key that signed it",
                         driver.dkms_version.value_or("")),
             {"sudo dmesg | grep -i -E 'key was rejected|module verification|lockdown'   # whether it says so",
              "sudo mokutil --import /var/lib/dkms/mok.pub   # choose a password, then enrol it at the next boot",
              "sudo reboot"});
}

void unsigned_under_secure_boot(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  if (subject.environment.host.secure_boot != true || driver.loaded_version) return;
  if (is_elsewhere(subject) && !driver.signer) key_may_be_refused(subject, report);
  if (!driver.on_disk_version || !driver.signer || !driver.signer->empty()) return;
  report.say(fmt::format("Secure Boot is on and the module of driver {} is not signed", *driver.on_disk_version),
             {"sudo mokutil --import /var/lib/dkms/mok.pub   # choose a password, then enrol it at the next boot",
              "sudo dkms autoinstall", "sudo reboot"});
}

void not_built_for_kernel(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  const auto& host = subject.environment.host;
  if (!driver.dkms_version || host.installed_kernels.empty()) return;
  const std::string& newest = host.installed_kernels.back();
  const auto& built = driver.dkms_built_for;
  if (std::ranges::find(built, newest) != built.end()) return;
  report.say(
      fmt::format("DKMS has not built driver {} for kernel {}, which the next boot may start", *driver.dkms_version,
                  newest),
      {install_kernel_headers(subject.environment), fmt::format("sudo dkms autoinstall -k {}", shell_word(newest))});
}

/// No module for the kernel that runs; where it is not known, for none of the installed ones.
void module_not_built(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  const auto& host = subject.environment.host;
  if (!driver.dkms_version || driver.loaded_version || driver.on_disk_version || driver_of(subject)) return;
  if (nvidia_gpus(subject).empty() && !is_elsewhere(subject)) return;
  const auto is_built = [&](const std::string& kernel) {
    return std::ranges::find(driver.dkms_built_for, kernel) != driver.dkms_built_for.end();
  };
  const bool running = host.kernel && !host.kernel->empty();
  const auto& kernels = host.installed_kernels;
  if (running ? is_built(*host.kernel) : kernels.empty() || std::ranges::any_of(kernels, is_built)) return;
  const std::string& kernel = running ? *host.kernel : kernels.back();
  report.say(
      fmt::format("DKMS has not built driver {} for {}kernel {}: there is no module to load", *driver.dkms_version,
                  running ? "the running " : "", kernel),
      {install_kernel_headers(subject.environment), fmt::format("sudo dkms autoinstall -k {}", shell_word(kernel)),
       "sudo modprobe nvidia", "send also: /var/lib/dkms/nvidia/*/build/make.log, if the build fails"});
}

void headers_missing(const Subject& subject, Report& report) {
  if (!subject.environment.driver.dkms_version || subject.environment.host.kernel_headers != false) return;
  report.say(fmt::format("the headers of kernel {} are not installed; DKMS cannot build the driver without them",
                         subject.environment.host.kernel.value_or("")),
             {install_kernel_headers(subject.environment)});
}

void firmware_missing(const Subject& subject, Report& report) {
  const auto& driver = subject.environment.driver;
  // Before Turing there is no GSP, and nobody loads that file.
  const auto gpus = nvidia_gpus(subject);
  if (!gpus.empty() && gpus_for_proprietary_module(subject).size() == gpus.size()) return;
  if (!driver.loaded_version || !driver.firmware_version || *driver.firmware_version == *driver.loaded_version) return;
  report.say(
      fmt::format("GSP firmware {} lies in /lib/firmware/nvidia, the loaded driver is {}",
                  driver.firmware_version->empty() ? "is missing:" : *driver.firmware_version, *driver.loaded_version),
      {fmt::format("reinstall the firmware package of driver {}", *driver.loaded_version), "sudo reboot"});
}

void firmware_switched_off(const Subject& subject, Report& report) {
  const auto& parameters = subject.environment.driver.parameters;
  if (std::ranges::find(parameters, "NVreg_EnableGpuFirmware=0") == parameters.end()) return;
  if (subject.environment.driver.flavour != ModuleFlavour::open) return;
  report.say("NVreg_EnableGpuFirmware=0 is set; the open kernel module ignores it",
             {"grep -rn EnableGpuFirmware /etc/modprobe.d   # remove that line"});
}

void uvm_missing(const Subject& subject, Report& report) {
  if (!knows_modules(subject) || !has_loaded(subject, "nvidia") || has_loaded(subject, "nvidia_uvm")) return;
  report
      .say("the module nvidia_uvm is not loaded: CUDA cannot start (nvidia-smi works all the same)",
           {"sudo modprobe nvidia_uvm", "sudo nvidia-modprobe -c 0 -u"})
      .safe = true;
}

void nodes_missing(const Subject& subject, Report& report) {
  std::vector<std::string> missing;
  for (const auto& node : subject.environment.device_nodes) {
    if (!node.exists && !node.path.contains("modeset") && !node.path.contains("tools")) missing.push_back(node.path);
  }
  if (missing.empty() || !subject.environment.driver.loaded_version || is_container(subject)) return;
  report
      .say(fmt::format("{} {} missing though the driver is loaded", join(missing, ", "),
                       missing.size() == 1 ? "is" : "are"),
           {"sudo nvidia-modprobe -c 0 -u"})
      .safe = true;
}

void nodes_not_permitted(const Subject& subject, Report& report) {
  std::vector<std::string> closed;
  std::string group;
  for (const auto& node : subject.environment.device_nodes) {
    if (!node.exists || node.openable != false || node.refusal != DeviceNode::Refusal::file_mode) continue;
    closed.push_back(node.path);
    if (node.owner.contains(':')) group = node.owner.substr(node.owner.find(':') + 1);
  }
  if (closed.empty()) return;
  const bool joinable = !group.empty() && group != "root";
  report.say(fmt::format("this user may not open {}", join(closed, ", ")),
             {joinable ? fmt::format("sudo usermod -aG {} $USER   # then log in again", shell_word(group))
                       : "sudo chmod 0666 /dev/nvidia*   # or NVreg_DeviceFileMode=0666 in /etc/modprobe.d"});
}

void nodes_blocked(const Subject& subject, Report& report) {
  std::vector<std::string> blocked;
  for (const auto& node : subject.environment.device_nodes) {
    if (node.exists && node.openable == false && node.refusal == DeviceNode::Refusal::cgroup)
      blocked.push_back(node.path);
  }
  if (blocked.empty()) return;
  const std::string fix = subject.environment.slurm && subject.environment.slurm->job_id
                              ? "ask for the GPU: srun --gpus=1 ..."
                              : "start the container with --gpus all (or --device nvidia.com/gpu=all)";
  report.say(fmt::format("the cgroup of this process does not allow {}", join(blocked, ", ")), {fix});
}

constexpr auto kDriverChecks = std::to_array<Check>({
    {"nouveau-loaded", Area::driver, Severity::critical, "nouveau in the kernel",
     "Two drivers cannot hold one GPU; while nouveau is loaded no CUDA program can run.",
     "NVIDIA GPU Operator and DCGM documentation (DCGM_FR_DENYLISTED_DRIVER)", kKernelModules, nouveau_loaded},
    {"driver-generations-clash", Area::driver, Severity::critical, "GPUs that no one driver serves",
     "GPUs before Turing work with the proprietary module only, Blackwell with the open one only.",
     "NVIDIA driver installation guide, kernel modules", kKernelModules, no_common_module},
    {"driver-missing", Area::driver, Severity::critical, "a driver for the GPUs on the PCI bus",
     "Without NVIDIA's driver no CUDA program sees a GPU.", "NVIDIA driver installation guide", kKernelModules,
     no_driver, "nouveau-loaded"},
    {"driver-blacklisted", Area::driver, Severity::critical, "modprobe.d against the nvidia module",
     "A blacklisted module is not loaded at boot.", "modprobe.d(5)", "", module_kept_away, "nouveau-loaded"},
    {"secure-boot-unsigned-module", Area::driver, Severity::critical, "the module's signature under Secure Boot",
     "The kernel rejects unsigned modules under Secure Boot (\"Key was rejected by service\").",
     "rhboot/shim#617; modinfo's signer field", "", unsigned_under_secure_boot},
    {"driver-not-loaded", Area::driver, Severity::critical, "whether the installed driver is loaded",
     "Installed is not running: no program sees a GPU until the kernel has loaded the module.",
     "NVIDIA driver installation guide", kKernelModules, not_loaded,
     "nouveau-loaded driver-blacklisted secure-boot-unsigned-module"},
    {"driver-library-mismatch", Area::driver, Severity::critical, "the driver's libraries against the loaded module",
     "Libraries and kernel module of a driver must be the same version to the last digit.",
     "nvml.h NVML_ERROR_LIB_RM_VERSION_MISMATCH; NVRM: API mismatch", "", library_differs},
    {"driver-waits-for-reboot", Area::driver, Severity::warning, "the loaded module against the one on disk",
     "After an update the old module stays loaded; new programs may soon fail with a version mismatch.",
     "NVML error 18 and its usual cause, unattended upgrades", "", waiting_for_reload, "driver-library-mismatch"},
    {"driver-not-answering", Area::driver, Severity::critical, "whether the driver answers in time",
     "A driver that hangs blocks every GPU program on the machine.", "gpuwarden's own deadline (--timeout)", "",
     does_not_answer},
    {"nvml-broken", Area::driver, Severity::critical, "whether NVML's library works",
     "Where the library crashes, lacks functions or answers nonsense, no tool can tell what the GPUs do.",
     "gpuwarden reads NVML in a process of its own", "", library_broken},
    {"driver-in-trouble", Area::driver, Severity::critical, "any other failure of the driver",
     "A driver that refuses to start serves no GPU.", "nvml.h, return codes of nvmlInit", "", driver_in_trouble,
     "nouveau-loaded driver-missing driver-not-loaded driver-library-mismatch told-open-module-needed told-legacy-gpu "
     "told-other-driver told-init-failed told-no-memory-window told-no-gpu-served told-key-rejected told-build-failed "
     "told-module-missing driver-module-not-built secure-boot-unsigned-module"},
    {"reading-has-gaps", Area::driver, Severity::error, "what the driver did not report though its GPUs answer",
     "A call that hangs or crashes for one part of a reading may soon do so for others.",
     "gpuwarden's own deadline (--timeout)", "", reading_has_gaps},
    {"nvml-unknown-error", Area::driver, Severity::critical, "NVML's \"Unknown Error\"",
     "In a container it means that its device rules were dropped, as systemctl daemon-reload does.",
     "NVIDIA container toolkit, troubleshooting",
     "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html", unknown_error},
    {"module-proprietary-on-blackwell", Area::driver, Severity::critical, "the kind of kernel module for new GPUs",
     "Blackwell and Grace Hopper work with the open kernel module only.",
     "NVIDIA driver installation guide, kernel modules", kKernelModules, proprietary_on_blackwell,
     "driver-generations-clash"},
    {"module-open-on-old-gpu", Area::driver, Severity::critical, "the kind of kernel module for old GPUs",
     "The open kernel module needs the GSP, which came with Turing.", "NVIDIA/open-gpu-kernel-modules README",
     kKernelModules, open_on_old_gpus, "driver-generations-clash"},
    {"driver-too-old-for-gpu", Area::driver, Severity::critical, "the driver's branch against the GPUs' first",
     "A driver does not know GPUs that came after it.", "first driver of the architecture (gpu_models table)", kMatrix,
     driver_too_old_for_gpu},
    {"driver-dropped-gpu", Area::driver, Severity::critical, "the driver's branch against the GPUs' last",
     "Newer branches leave old architectures out: Kepler after 470; Maxwell, Pascal and Volta after 580.",
     "CUDA toolkit, driver and architecture matrix", kMatrix, driver_dropped_gpu},
    {"driver-end-of-life", Area::driver, Severity::info, "the branch's life cycle",
     "A branch past its end gets no security fixes.", "NVIDIA data center driver life cycle (driver_branches table)",
     kMatrix, driver_at_its_end},
    {"driver-newer-than-known", Area::driver, Severity::info, "a branch that came after this program",
     "What is new is judged by the newest known rules, not refused.", "gpuwarden's knowledge base", "",
     driver_newer_than_known},
    {"driver-module-not-built", Area::driver, Severity::critical, "DKMS against the running kernel",
     "A driver that is installed as source serves no GPU until its module is built for the kernel.", "dkms(8)",
     kKernelModules, module_not_built, "told-build-failed told-module-missing"},
    {"driver-not-built-for-kernel", Area::driver, Severity::warning, "DKMS against the installed kernels",
     "After the next boot the driver would be missing.", "dkms(8)", "", not_built_for_kernel,
     "kernel-headers-missing driver-module-not-built"},
    {"kernel-headers-missing", Area::driver, Severity::warning, "headers for DKMS",
     "The next driver or kernel update cannot build the module.", "NVIDIA driver installation guide", kKernelModules,
     headers_missing, "driver-module-not-built"},
    {"gsp-firmware-mismatch", Area::driver, Severity::error, "the GSP firmware against the driver",
     "Turing and newer load firmware of exactly the driver's version; another fails in RmInitAdapter.",
     "NVIDIA driver README, GSP firmware; open-gpu-kernel-modules#820", "", firmware_missing},
    {"gsp-switch-ignored", Area::driver, Severity::info, "NVreg_EnableGpuFirmware",
     "Who set it believes that the GSP is off; with the open module it is on.", "NVIDIA driver README, GSP firmware",
     "", firmware_switched_off},
    {"uvm-not-loaded", Area::driver, Severity::critical, "the module nvidia_uvm",
     "CUDA opens /dev/nvidia-uvm; without it cuInit fails with error 999 or 100.",
     "NVIDIA driver installation guide, kernel modules", kKernelModules, uvm_missing},
    {"device-nodes-missing", Area::driver, Severity::critical, "the files in /dev",
     "Programs reach the driver through these files.", "nvidia-modprobe(1)", "", nodes_missing, "uvm-not-loaded"},
    {"device-nodes-not-permitted", Area::driver, Severity::error, "who may open the files in /dev",
     "Without the permission CUDA reports that there is no device.", "nvidia driver README, NVreg_DeviceFileMode", "",
     nodes_not_permitted},
    {"device-nodes-blocked", Area::driver, Severity::error, "the cgroup's device rules",
     "NVML may still list the GPU, but no program here can open it.",
     "nvml.h NVML_ERROR_OPERATING_SYSTEM; kernel cgroup v2 device controller", "", nodes_blocked},
});

}  // namespace

std::span<const Check> driver_checks() { return kDriverChecks; }

}  // namespace gpuwarden::doctor
