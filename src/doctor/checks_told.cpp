// SPDX-License-Identifier: Apache-2.0
// What the kernel's log, installers and container tools say about the driver, as a report quotes it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::Version;

/// The machine with the kernel that a message names, where none is told: it says whose packages are meant.
facts::Environment with_kernel(const Subject& subject, std::string_view kernel) {
  facts::Environment environment = subject.environment;
  if (!environment.host.kernel && !kernel.empty()) environment.host.kernel = kernel;
  return environment;
}

std::string first_word(std::string_view text) {
  const auto words = split_words(text);
  return words.empty() ? "" : std::string(words.front());
}

void open_module_needed(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "nvrm_open_needed");
  if (message == nullptr) return;
  std::vector<std::string> steps = install_driver(
      subject, report,
      no_older_than(subject, report, driver_branch(subject).value_or(0), {.module = facts::ModuleFlavour::open}));
  report.say(fmt::format("the driver refuses a GPU: it needs the open kernel module, and the proprietary one is "
                         "loaded{}",
                         at_line(*message)),
             std::move(steps));
}

void legacy_branch(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "nvrm_legacy_branch");
  if (message == nullptr) return;
  const auto branch = Version::parse(message->value);
  const auto* ignored = told_of(subject, "nvrm_ignores_gpu");
  const std::string driver = ignored != nullptr && !ignored->value.empty() ? "driver " + ignored->value : "this driver";
  if (!branch) {
    report.say(fmt::format("{} ignores a GPU that only an older branch serves{}", driver, at_line(*message)),
               {"read on in the log: it names the branch (\"Legacy drivers\")"});
    return;
  }
  report.say(
      fmt::format("{} ignores a GPU: {} is the last branch that serves it{}", driver, branch->major, at_line(*message)),
      install_driver(subject, report,
                     no_older_than(subject, report, branch->major,
                                   {.at_most = branch->major, .module = facts::ModuleFlavour::proprietary})));
}

void init_failed(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "nvrm_init_failed");
  if (message == nullptr) return;
  report.say(fmt::format("the driver cannot initialise a GPU: RmInitAdapter failed{}{}",
                         message->value.empty() ? "" : fmt::format(" ({})", message->value), at_line(*message)),
             {"power the machine off and on: a warm reboot does not reset the card",
              "sudo dmesg | grep -i nvrm   # the lines above it say why: firmware, memory window, open module",
              "test the card alone, in another slot, with its own power cable"});
}

void no_gpu_served(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "nvrm_no_gpu");
  if (message == nullptr) return;
  report.say(fmt::format("the driver is loaded and serves no GPU{}", at_line(*message)),
             {"sudo dmesg | grep -i nvrm   # the lines above it name the GPU and the reason",
              "lspci -nnk -d 10de:   # the GPU, and the driver that has it"});
}

void owned_by_another(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "nvrm_other_driver");
  if (message == nullptr) return;
  report.say(fmt::format("another kernel driver has the GPU (nouveau, vfio-pci, rivafb){}", at_line(*message)),
             {"lspci -nnk -d 10de:   # \"Kernel driver in use\"",
              "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/nouveau-off.conf",
              rebuild_initramfs(subject.environment), "sudo reboot"});
}

void no_memory_window(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "nvrm_no_memory_window");
  if (message == nullptr) return;
  report.say(fmt::format("the firmware gave the GPU no window in the address space{}", at_line(*message)),
             {"switch on \"Above 4G Decoding\" (and Resizable BAR) in the firmware's settings",
              "or add pci=realloc=on to the kernel's command line"});
}

void key_rejected(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "module_key_rejected");
  if (message == nullptr) return;
  const bool ubuntu = family_of(subject.environment) == Family::ubuntu;
  report.say(fmt::format("Secure Boot rejects the nvidia module: its key is not enrolled{}", at_line(*message)),
             {ubuntu ? "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der   # choose a password"
                     : "sudo mokutil --import /var/lib/dkms/mok.pub   # choose a password",
              "sudo reboot   # and enrol the key in the blue screen (MOK manager)",
              "or switch Secure Boot off in the firmware's settings"});
}

void module_not_there(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "module_not_found");
  if (message == nullptr) return;
  const std::string kernel = first_word(message->value);
  report.say(fmt::format("there is no nvidia module for {}{}", kernel.empty() ? "this kernel" : "kernel " + kernel,
                         at_line(*message)),
             {install_kernel_headers(with_kernel(subject, kernel)), "sudo dkms autoinstall", "sudo modprobe nvidia"});
}

void headers_missing(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "dkms_headers_missing");
  if (message == nullptr) return;
  facts::Environment environment = subject.environment;
  if (!message->value.empty()) environment.host.kernel = message->value;
  report.say(fmt::format("DKMS finds no headers of kernel {}, and cannot build the driver's module for it{}",
                         message->value.empty() ? "that runs" : message->value, at_line(*message)),
             {install_kernel_headers(environment), "sudo dkms autoinstall", "sudo modprobe nvidia"});
}

/// A failure of another vendor's module is not the driver's.
void build_failed(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "dkms_build_failed");
  const auto* log = told_of(subject, "dkms_build_log");
  if (message == nullptr || (log != nullptr && !log->value.starts_with("nvidia"))) return;
  const std::string kernel = first_word(message->value);
  facts::Environment environment = with_kernel(subject, "");
  if (!kernel.empty()) environment.host.kernel = kernel;
  const Subject told{subject.snapshot, environment, subject.knowledge, subject.purpose, subject.burn_in};
  std::string version = log == nullptr ? "" : log->value.substr(std::min(log->value.find('/') + 1, log->value.size()));
  version = version.substr(0, version.find('/'));
  std::vector<std::string> steps{log == nullptr ? "grep -m3 -n error: /var/lib/dkms/nvidia*/*/build/make.log"
                                                : "grep -m3 -n error: " + shell_word("/var/lib/dkms/" + log->value),
                                 install_kernel_headers(environment)};
  const auto branch = Version::parse(version);
  for (std::string& step : plan_driver(told, report, no_older_than(told, report, branch ? branch->major : 0)))
    steps.push_back(std::move(step));
  steps.emplace_back(
      "[@modules] the log's first error says which: missing headers, or a kernel newer than that driver");
  report.say(fmt::format("DKMS could not build driver {} for kernel {}{}", version.empty() ? "nvidia" : version, kernel,
                         at_line(*message)),
             std::move(steps));
}

void container_cuda(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "container_needs_cuda");
  const auto cuda = message == nullptr ? std::nullopt : Version::parse(message->value);
  if (!cuda) return;
  const auto own = driver_cuda(subject);
  std::vector<std::string> steps = driver_steps_for_cuda(subject, report, *cuda);
  steps.push_back(
      fmt::format("[@nvidia] or take an image for CUDA {}", own ? to_string(*own) + " or older" : "of this driver"));
  if (!own && is_elsewhere(subject)) steps.emplace_back("[@nvidia] send also: nvidia-smi of the host");
  report.say(fmt::format("the container asks for CUDA {}, which the host's driver does not offer{}{}", to_string(*cuda),
                         own ? fmt::format(" (it offers {})", to_string(*own)) : "", at_line(*message)),
             std::move(steps));
}

void container_tools(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "container_without_toolkit");
  if (message == nullptr) return;
  std::vector<std::string> steps = install_container_toolkit(subject.environment);
  for (std::string& step : configure_docker()) steps.push_back(std::move(step));
  report.say(fmt::format("the container engine knows no NVIDIA GPUs: the NVIDIA Container Toolkit is missing or not "
                         "configured{}",
                         at_line(*message)),
             std::move(steps));
}

void fabric_version(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "fabric_version_differs");
  if (message == nullptr) return;
  report.say(fmt::format("the fabric manager is of another version than the driver{}{}",
                         message->value.empty() ? "" : " " + message->value, at_line(*message)),
             install_fabric_manager(subject.environment, message->value));
}

void ptxas(const Subject& subject, Report& report) {
  const auto* message = told_of(subject, "ptxas_arch");
  if (message == nullptr) return;
  const auto number = parse_integer(message->value.substr(0, message->value.find_first_not_of("0123456789")));
  const auto range = number ? subject.knowledge.toolkits_for(static_cast<int>(*number)) : std::nullopt;
  const std::string needs = range ? fmt::format("; it came with CUDA {}", to_string(range->first)) : "";
  std::vector<std::string> steps{
      "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas   # where Triton's own is the old one",
      "ptxas --version   # the one that is used"};
  if (range)
    steps.insert(steps.begin(),
                 toolkit_step(subject, range->first, fmt::format("gpuwarden env use {}", to_string(range->first))));
  report.say(fmt::format("ptxas does not know sm_{}{}{}", message->value, needs, at_line(*message)), std::move(steps));
}

constexpr std::string_view kInstallGuide = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/";

constexpr auto kToldChecks = std::to_array<Check>({
    {"told-open-module-needed", Area::driver, Severity::critical, "\"requires use of the NVIDIA open kernel modules\"",
     "The proprietary module leaves these GPUs alone, so that no program sees them.",
     "NVIDIA driver installation guide, kernel modules; NVRM's own words", kInstallGuide, open_module_needed,
     "module-proprietary-on-blackwell"},
    {"told-legacy-gpu", Area::driver, Severity::critical, "\"supported through the NVIDIA ... Legacy drivers\"",
     "A driver serves no GPU that its branch has dropped.", "NVRM's own words; NVIDIA, legacy GPUs",
     "https://www.nvidia.com/en-us/drivers/unix/legacy-gpu/", legacy_branch, "driver-dropped-gpu"},
    {"told-no-memory-window", Area::driver, Severity::critical, "\"BAR0 is 0M\", \"PCI I/O region ... is invalid\"",
     "Without a window the kernel cannot reach the card.", "NVRM's own words; NVIDIA driver README", kInstallGuide,
     no_memory_window},
    {"told-other-driver", Area::driver, Severity::critical, "\"The NVIDIA probe routine was not called\"",
     "A GPU has one driver at a time.", "NVRM's own words", kInstallGuide, owned_by_another, "nouveau-loaded"},
    {"told-init-failed", Area::driver, Severity::critical, "\"RmInitAdapter failed\"",
     "The GPU stays unusable until it is initialised.", "NVRM's own words; NVIDIA Xid documentation", kXids,
     init_failed, "gsp-firmware-mismatch told-open-module-needed told-no-memory-window"},
    {"told-no-gpu-served", Area::driver, Severity::critical, "\"No NVIDIA GPU found\"",
     "The module is there and found nothing that it can drive.", "NVRM's own words", kInstallGuide, no_gpu_served,
     "told-open-module-needed told-legacy-gpu told-other-driver told-init-failed told-no-memory-window"},
    {"told-key-rejected", Area::driver, Severity::critical, "\"Key was rejected by service\"",
     "Under Secure Boot the kernel loads only modules whose key the firmware knows.", "rhboot/shim#617; mokutil(1)", "",
     key_rejected, "secure-boot-unsigned-module"},
    {"told-build-failed", Area::driver, Severity::critical, "\"Bad return status for module build\"",
     "The kernel that it was built for has no driver.", "dkms(8)", kInstallGuide, build_failed,
     "kernel-headers-missing"},
    {"told-headers-missing", Area::driver, Severity::critical, "\"kernel headers ... cannot be found\"",
     "DKMS compiles the driver's module against them.", "dkms(8)", kInstallGuide, headers_missing,
     "kernel-headers-missing"},
    {"told-module-missing", Area::driver, Severity::critical, "\"Module nvidia not found in directory\"",
     "The running kernel has no driver to load.", "modprobe(8)", kInstallGuide, module_not_there,
     "told-build-failed told-headers-missing kernel-headers-missing"},
    {"told-fabric-version", Area::multi_gpu, Severity::critical, "the fabric manager's own words on versions",
     "It must equal the driver to the last digit; before it runs CUDA answers with error 802.",
     "NVIDIA fabric manager user guide", "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
     fabric_version, "fabric-manager-version-differs"},
    {"told-container-needs-cuda", Area::containers, Severity::error, "\"unsatisfied condition: cuda>=\"",
     "The image's NVIDIA_REQUIRE_CUDA is checked before it starts.", "NVIDIA container toolkit, NVIDIA_REQUIRE_*",
     "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
     container_cuda},
    {"told-container-without-toolkit", Area::containers, Severity::error, "\"could not select device driver\"",
     "Without it no container gets a GPU.", "NVIDIA container toolkit, installation",
     "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html", container_tools,
     "container-toolkit-missing"},
    {"told-ptxas-too-old", Area::toolkit, Severity::error, "\"ptxas fatal: Value 'sm_...' is not defined\"",
     "That assembler is older than the GPU.", "triton-lang/triton#8539, #9181; CUDA release notes", "", ptxas,
     "toolkit-too-old-for-gpu"},
});

}  // namespace

std::span<const Check> told_checks() { return kToldChecks; }

}  // namespace gpuwarden::doctor
