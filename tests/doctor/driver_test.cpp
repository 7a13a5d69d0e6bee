// SPDX-License-Identifier: Apache-2.0
// Each check of the kernel driver: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::ModuleFlavour;
using facts::Snapshot;

facts::KernelDriver& driver(Snapshot& machine) { return software(machine).driver; }

void unload(Snapshot& machine) {
  driver(machine).loaded_version.reset();
  driver(machine).loaded_modules.clear();
}

void disable_gpus(Snapshot& machine) {
  for (auto& record : machine.gpus) record.state = facts::GpuState::disabled;
}

void mix(Snapshot& machine, std::string_view newer, facts::ComputeCapability capability) {
  remove_cuda_software(machine);
  use_gpus(machine, "Tesla V100-SXM2-32GB", {7, 0});
  machine.gpus[3].gpu.name = newer;
  machine.gpus[3].gpu.compute_capability = capability;
}

void put_in_v100(Snapshot& machine, std::string_view version, ModuleFlavour flavour) {
  remove_cuda_software(machine);
  use_gpus(machine, "Tesla V100-SXM2-32GB", {7, 0});
  use_driver(machine, version);
  use_module(machine, flavour);
}

void use_b200(Snapshot& machine, std::string_view version, ModuleFlavour flavour) {
  remove_cuda_software(machine);
  use_gpus(machine, "NVIDIA B200", {10, 0});
  use_driver(machine, version);
  use_module(machine, flavour);
}

void use_bare_driver(Snapshot& machine, std::string_view version) {
  remove_cuda_software(machine);
  use_driver(machine, version);
}

using ProblemKind = facts::DriverProblem::Kind;

void fail_with(Snapshot& machine, ProblemKind kind, std::string_view message) {
  machine.problem = {kind, {ErrorCode::unavailable, std::string(message), ""}};
}

void set_gap(Snapshot& machine, std::string_view message) {
  machine.gaps = {
      {facts::ReadingGap::Part::links, {ProblemKind::timed_out, {ErrorCode::timed_out, std::string(message), ""}}}};
}

void set_node(Snapshot& machine, std::string_view path, std::optional<facts::DeviceNode::Refusal> refusal) {
  for (auto& node : software(machine).device_nodes) {
    if (node.path != path) continue;
    node.openable = refusal ? std::optional(false) : std::nullopt;
    node.refusal = refusal;
    node.owner = "root:video";
  }
}

void build_with_dkms(Snapshot& machine, std::vector<std::string> kernels) {
  driver(machine).dkms_version = "580.105.08";
  driver(machine).dkms_built_for = std::move(kernels);
  host(machine).installed_kernels = {"6.8.0-45-generic", "6.8.0-47-generic"};
}

constexpr auto kDriverCases = std::to_array<Case>({
    {"nouveau-loaded", [](Snapshot& m) { driver(m).loaded_modules.emplace_back("nouveau"); },
     [](Snapshot& m) { driver(m).blacklisted = {"nouveau"}; }, "nouveau"},
    {"driver-generations-clash", [](Snapshot& m) { mix(m, "NVIDIA B200", {10, 0}); },
     [](Snapshot& m) {
       mix(m, "NVIDIA H100 PCIe", {9, 0});
       use_module(m, ModuleFlavour::proprietary);
     },
     "GPUs 0-2 need the proprietary kernel module and GPU 3 the open one"},
    {"driver-missing",
     [](Snapshot& m) {
       disable_gpus(m);
       forget_driver(m);
     },
     disable_gpus, "no NVIDIA driver is installed for GPUs 0-3"},
    {"driver-blacklisted",
     [](Snapshot& m) {
       unload(m);
       driver(m).blacklisted = {"nvidia"};
     },
     [](Snapshot& m) { driver(m).blacklisted = {"nvidia"}; }, "modprobe.d"},
    {"secure-boot-unsigned-module",
     [](Snapshot& m) {
       unload(m);
       host(m).secure_boot = true;
       driver(m).signer = "";
     },
     [](Snapshot& m) { host(m).secure_boot = true; }, "Secure Boot"},
    {"driver-not-loaded", unload, [](Snapshot& m) { driver(m).loaded_version.reset(); },
     "driver 580.105.08 is installed but not loaded"},
    {"driver-library-mismatch", [](Snapshot& m) { driver(m).library_version = "580.95.05"; },
     [](Snapshot& m) { driver(m).library_version.reset(); }, "580.95.05"},
    {"driver-waits-for-reboot", [](Snapshot& m) { driver(m).on_disk_version = "580.126.09"; },
     [](Snapshot& m) { driver(m).on_disk_version.reset(); }, "580.126.09 lies on disk"},
    {"driver-not-answering", [](Snapshot& m) { fail_with(m, ProblemKind::timed_out, "no answer within 10 s"); },
     [](Snapshot& m) { fail_with(m, ProblemKind::no_library, "it did not answer within 10 s"); }, "10 s"},
    {"nvml-broken", [](Snapshot& m) { fail_with(m, ProblemKind::crashed, "NVML crashed (signal 11)"); },
     [](Snapshot& m) { fail_with(m, ProblemKind::no_library, "NVML crashed"); }, "signal 11"},
    {"driver-in-trouble", [](Snapshot& m) { fail_with(m, ProblemKind::other, "NVML code 17"); },
     [](Snapshot& m) {
       fail_with(m, ProblemKind::other, "nvidia-smi was called with wrong options");
       m.origin = "box.txt: smi_error";
     },
     "NVML code 17"},
    {"reading-has-gaps", [](Snapshot& m) { set_gap(m, "no answer when asked for the topology"); },
     [](Snapshot& m) { m.links.reset(); }, "topology"},
    {"nvml-unknown-error", [](Snapshot& m) { fail_with(m, ProblemKind::unknown_error, "Unknown Error"); },
     [](Snapshot& m) { fail_with(m, ProblemKind::no_library, "Unknown Error"); }, "Unknown Error"},
    {"module-proprietary-on-blackwell", [](Snapshot& m) { use_b200(m, "580.105.08", ModuleFlavour::proprietary); },
     [](Snapshot& m) { use_module(m, ModuleFlavour::proprietary); }, "NVIDIA B200"},
    {"module-open-on-old-gpu", [](Snapshot& m) { put_in_v100(m, "580.105.08", ModuleFlavour::open); },
     [](Snapshot& m) { put_in_v100(m, "580.105.08", ModuleFlavour::proprietary); }, "V100"},
    {"driver-too-old-for-gpu", [](Snapshot& m) { use_b200(m, "550.54.15", ModuleFlavour::open); },
     [](Snapshot& m) { use_b200(m, "570.86.15", ModuleFlavour::open); }, "which came with branch 570"},
    {"driver-dropped-gpu", [](Snapshot& m) { put_in_v100(m, "595.58.03", ModuleFlavour::proprietary); },
     [](Snapshot& m) { put_in_v100(m, "580.65.06", ModuleFlavour::proprietary); }, "580 is the last that does"},
    {"driver-end-of-life", [](Snapshot& m) { use_bare_driver(m, "545.23.08"); },
     [](Snapshot& m) { use_bare_driver(m, "580.65.06"); }, "branch 545"},
    {"driver-newer-than-known", [](Snapshot& m) { use_bare_driver(m, "900.10.01"); },
     [](Snapshot& m) { use_bare_driver(m, "615.10.01"); }, "branch 900"},
    {"driver-module-not-built",
     [](Snapshot& m) {
       forget_driver(m);
       build_with_dkms(m, {"6.8.0-47-generic"});
     },
     [](Snapshot& m) {
       forget_driver(m);
       build_with_dkms(m, {"6.8.0-45-generic", "6.8.0-47-generic"});
     },
     "running kernel 6.8.0-45-generic"},
    {"driver-not-built-for-kernel", [](Snapshot& m) { build_with_dkms(m, {"6.8.0-45-generic"}); },
     [](Snapshot& m) { build_with_dkms(m, {"6.8.0-45-generic", "6.8.0-47-generic"}); }, "6.8.0-47-generic"},
    {"kernel-headers-missing",
     [](Snapshot& m) {
       build_with_dkms(m, {"6.8.0-45-generic", "6.8.0-47-generic"});
       host(m).kernel_headers = false;
     },
     [](Snapshot& m) { host(m).kernel_headers = false; }, "6.8.0-45-generic"},
    {"gsp-firmware-mismatch", [](Snapshot& m) { driver(m).firmware_version = "550.54.15"; },
     [](Snapshot& m) { driver(m).firmware_version.reset(); }, "GSP firmware 550.54.15"},
    {"gsp-switch-ignored", [](Snapshot& m) { driver(m).parameters = {"NVreg_EnableGpuFirmware=0"}; },
     [](Snapshot& m) {
       driver(m).parameters = {"NVreg_EnableGpuFirmware=0"};
       use_module(m, ModuleFlavour::proprietary);
     },
     "NVreg_EnableGpuFirmware=0"},
    {"uvm-not-loaded", [](Snapshot& m) { std::erase(driver(m).loaded_modules, "nvidia_uvm"); },
     [](Snapshot& m) { driver(m).loaded_modules.clear(); }, "nvidia_uvm"},
    {"device-nodes-missing", [](Snapshot& m) { software(m).device_nodes[3].exists = false; },
     [](Snapshot& m) { software(m).device_nodes.push_back({.path = "/dev/nvidia-modeset"}); },
     "/dev/nvidia1 is missing"},
    {"device-nodes-not-permitted",
     [](Snapshot& m) { set_node(m, "/dev/nvidia2", facts::DeviceNode::Refusal::file_mode); },
     [](Snapshot& m) { set_node(m, "/dev/nvidia2", std::nullopt); }, "/dev/nvidia2"},
    {"device-nodes-blocked", [](Snapshot& m) { set_node(m, "/dev/nvidia2", facts::DeviceNode::Refusal::cgroup); },
     [](Snapshot& m) { set_node(m, "/dev/nvidia2", std::nullopt); }, "/dev/nvidia2"},
});

}  // namespace

std::span<const Case> driver_cases() { return kDriverCases; }

namespace {

TEST(DriverChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(driver_cases()); }

TEST(DriverChecks, ADriverThatMayNotLoadIsNotSaidToBeUnloadedBesides) {
  Snapshot machine = healthy_machine();
  unload(machine);
  driver(machine).loaded_modules = {"nouveau"};
  EXPECT_EQ(found_in(machine), "nouveau-loaded");
}

TEST(DriverChecks, AMismatchThatNvmlReportsIsAMismatch) {
  Snapshot machine = healthy_machine();
  fail_with(machine, ProblemKind::mismatch, "Driver/library version mismatch");
  EXPECT_EQ(found_in(machine), "driver-library-mismatch");
}

TEST(DriverChecks, AClosedDeviceFileIsOpenedByItsGroup) {
  Snapshot machine = healthy_machine();
  set_node(machine, "/dev/nvidia2", facts::DeviceNode::Refusal::file_mode);
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].fix[0].contains("usermod -aG video")) << found.findings[0].fix[0];
}

void lack_driver(Snapshot& machine, std::string_view gpu, facts::ComputeCapability capability) {
  machine = healthy_machine();
  remove_cuda_software(machine);
  use_gpus(machine, gpu, capability);
  disable_gpus(machine);
  forget_driver(machine);
}

TEST(DriverChecks, GpusBeforeTuringGetTheProprietaryModuleOfTheirLastBranch) {
  Snapshot machine;
  lack_driver(machine, "Tesla V100-SXM2-32GB", {7, 0});
  EXPECT_EQ(fixes_of(machine), "sudo apt update && sudo apt install nvidia-driver-580\nsudo reboot");
  use_distribution(machine, "rocky", "9.4");
  EXPECT_EQ(fixes_of(machine), "sudo dnf module install nvidia-driver:580-dkms\nsudo reboot");
  for (const auto& [id, version] : {std::pair{"fedora", "42"}, {"sles", "15.6"}, {"debian", "13"}, {"", ""}}) {
    use_distribution(machine, id, version);
    EXPECT_EQ(fixes_of(machine), "gpuwarden driver plan --branch 580 --module proprietary\nsudo reboot") << id;
  }
  use_distribution(machine, "arch", "");
  EXPECT_TRUE(fixes_of(machine).starts_with("install nvidia-580xx-dkms")) << fixes_of(machine);
  lack_driver(machine, "Tesla K80", {3, 7});
  EXPECT_TRUE(fixes_of(machine).contains("sudo apt install nvidia-driver-470\n")) << fixes_of(machine);
}

TEST(DriverChecks, APciIdAloneTellsAnOldGpu) {
  Snapshot machine;
  lack_driver(machine, "unknown GPU", {6, 1});
  for (auto& record : machine.gpus) {
    record.gpu.compute_capability.reset();
    record.gpu.pci_device_id = 0x1BA110DE;
  }
  use_distribution(machine, "rocky", "9.4");
  EXPECT_EQ(fixes_of(machine), "sudo dnf module install nvidia-driver:580-dkms\nsudo reboot");
}

TEST(DriverChecks, NewerGpusGetTheOpenModule) {
  Snapshot machine;
  lack_driver(machine, "NVIDIA H100 80GB HBM3", {9, 0});
  for (const auto& [id, version, says] : {std::tuple{"ubuntu", "24.04", "sudo ubuntu-drivers install"},
                                          {"rocky", "9.4", "nvidia-driver:open-dkms"},
                                          {"fedora", "42", "sudo dnf install nvidia-open"},
                                          {"sles", "15.6", "nvidia-open-driver-G06-signed-kmp-default"},
                                          {"debian", "12", "sudo apt install nvidia-driver "},
                                          {"arch", "", "sudo pacman -S nvidia-open"}}) {
    use_distribution(machine, id, version);
    EXPECT_TRUE(fixes_of(machine).contains(says)) << id << ": " << fixes_of(machine);
  }
  lack_driver(machine, "NVIDIA B200", {10, 0});
  use_distribution(machine, "debian", "12");
  EXPECT_EQ(fixes_of(machine), "gpuwarden driver plan\nsudo reboot") << "Debian's own module is the proprietary one";
}

TEST(DriverChecks, ADriverBeforeTheGpuIsToldTheReleaseOfItsOwnBranch) {
  Snapshot machine = healthy_machine();
  machine.gpus[0].gpu.name = "NVIDIA GeForce RTX 4060";
  machine.gpus[0].gpu.pci_device_id.reset();
  use_driver(machine, "535.54.03");
  EXPECT_TRUE(titles_of(machine).contains(
      "driver 535.54.03 is older than GPU 0 (NVIDIA GeForce RTX 4060), which came with 535.86.05 of R535"))
      << titles_of(machine);
}

TEST(DriverChecks, AnOldDriverIsReplacedByABranchThatStillGetsFixes) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_gpus(machine, "NVIDIA GeForce RTX 4090", {8, 9});
  use_driver(machine, "470.256.02");
  machine.taken_at = std::chrono::sys_days{std::chrono::year(2026) / 11 / 1};
  const std::string fixes = fixes_of(machine);
  EXPECT_TRUE(fixes.contains("sudo apt install nvidia-driver-580-open")) << fixes;
  EXPECT_FALSE(fixes.contains("520")) << fixes;
}

TEST(DriverChecks, ABranchThatIsOverIsToldWhateverTimeAReportTells) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_driver(machine, "550.54.15");  // its end: June 2025
  EXPECT_EQ(found_in(machine), "driver-end-of-life") << "a report without a time";
  machine.taken_at = std::chrono::sys_days{std::chrono::year(2024) / 6 / 1};
  EXPECT_EQ(found_in(machine), "driver-end-of-life") << "an old one";
  EXPECT_EQ(fixes_of(machine), "gpuwarden driver plan --branch 580");
  machine.taken_at = std::chrono::sys_days{std::chrono::year(2027) / 1 / 1};
  EXPECT_EQ(found_in(machine), "driver-end-of-life") << "one of today";
}

TEST(DriverChecks, GraceHopperNeedsTheOpenModuleThoughHopperDoesNot) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_gpus(machine, "NVIDIA GH200 480GB", {9, 0});
  use_module(machine, ModuleFlavour::proprietary);
  EXPECT_EQ(found_in(machine), "module-proprietary-on-blackwell");
  use_gpus(machine, "NVIDIA H100 80GB HBM3", {9, 0});
  EXPECT_EQ(found_in(machine), "");
}

TEST(DriverChecks, AReloadStartsAgainWhatItStopped) {
  Snapshot machine = healthy_machine();
  driver(machine).library_version = "580.95.05";
  const std::string fixes = fixes_of(machine);
  EXPECT_TRUE(fixes.contains("systemctl stop nvidia-persistenced nvidia-fabricmanager\n")) << fixes;
  EXPECT_TRUE(fixes.contains("rmmod nvidia_peermem nvidia_uvm nvidia_drm nvidia_modeset nvidia &&")) << fixes;
  EXPECT_TRUE(fixes.contains("systemctl start nvidia-persistenced nvidia-fabricmanager\n")) << fixes;
  EXPECT_LT(fixes.find("modprobe nvidia"), fixes.find("systemctl start"));
  software(machine).services = {{"docker", "running", std::nullopt}};
  EXPECT_FALSE(fixes_of(machine).contains("systemctl")) << fixes_of(machine);
}

TEST(DriverChecks, AFabricManagerOfTheNewDriverWaitsForItsReload) {
  Snapshot machine = healthy_machine();
  software(machine).services[1].version = "580.126.09";
  driver(machine).on_disk_version = "580.126.09";
  EXPECT_EQ(found_in(machine), "driver-waits-for-reboot");
}

TEST(DriverChecks, GpusWithoutGspNeedNoFirmware) {
  Snapshot machine = healthy_machine();
  put_in_v100(machine, "580.105.08", ModuleFlavour::proprietary);
  driver(machine).firmware_version = "";
  EXPECT_EQ(found_in(machine), "");
  machine.gpus[3].gpu.name = "Tesla T4";
  machine.gpus[3].gpu.compute_capability = {7, 5};
  EXPECT_TRUE(found_in(machine).contains("gsp-firmware-mismatch")) << found_in(machine);
}

TEST(DriverChecks, WindowsHoldsTheDriverOfWsl) {
  Snapshot machine = healthy_machine();
  move_into_wsl(machine);
  driver(machine).library_version = "550.54.15";
  EXPECT_EQ(found_in(machine), "");
}

}  // namespace
}  // namespace gpuwarden::testing
