// SPDX-License-Identifier: Apache-2.0
// What kernel logs, installers and containers say about the driver: each check's case, and dead drivers in every form.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"
#include "gpuwarden/capture/capture.hpp"

namespace gpuwarden::testing {
namespace {

using doctor::Severity;
using facts::Snapshot;

void tell(Snapshot& machine, std::string_view kind, std::string_view value = "") {
  software(machine).messages.push_back({std::string(kind), "a line of a log", std::string(value), 7});
}
void tell_another(Snapshot& machine) { tell(machine, "nccl_timeout", "600"); }

constexpr auto kTold = std::to_array<Case>({
    {"told-open-module-needed", [](Snapshot& m) { tell(m, "nvrm_open_needed"); }, tell_another,
     "needs the open kernel module"},
    {"told-legacy-gpu", [](Snapshot& m) { tell(m, "nvrm_legacy_branch", "580"); }, tell_another, "580 is the last"},
    {"told-no-memory-window", [](Snapshot& m) { tell(m, "nvrm_no_memory_window"); }, tell_another, "no window"},
    {"told-other-driver", [](Snapshot& m) { tell(m, "nvrm_other_driver"); }, tell_another, "another kernel driver"},
    {"told-init-failed", [](Snapshot& m) { tell(m, "nvrm_init_failed", "0x62:0x40:2393"); }, tell_another,
     "0x62:0x40:2393"},
    {"told-no-gpu-served", [](Snapshot& m) { tell(m, "nvrm_no_gpu"); }, tell_another, "serves no GPU"},
    {"told-key-rejected", [](Snapshot& m) { tell(m, "module_key_rejected"); }, tell_another, "Secure Boot"},
    {"told-build-failed",
     [](Snapshot& m) {
       tell(m, "dkms_build_failed", "6.8.0-45-generic (x86_64");
       tell(m, "dkms_build_log", "nvidia/550.54.15/build/make.log");
     },
     [](Snapshot& m) {
       tell(m, "dkms_build_failed", "6.8.0-45-generic (x86_64");
       tell(m, "dkms_build_log", "decklink/12.4/build/make.log");
     },
     "could not build driver 550.54.15 for kernel 6.8.0-45-generic"},
    {"told-headers-missing", [](Snapshot& m) { tell(m, "dkms_headers_missing", "6.17.0-14-generic"); }, tell_another,
     "no headers of kernel 6.17.0-14-generic"},
    {"told-module-missing", [](Snapshot& m) { tell(m, "module_not_found", "6.8.0-45-generic"); }, tell_another,
     "no nvidia module for kernel 6.8.0-45-generic"},
    {"told-fabric-version", [](Snapshot& m) { tell(m, "fabric_version_differs", "570.133.20"); }, tell_another,
     "570.133.20"},
    {"told-container-needs-cuda", [](Snapshot& m) { tell(m, "container_needs_cuda", "13.9"); }, tell_another,
     "asks for CUDA 13.9"},
    {"told-container-without-toolkit", [](Snapshot& m) { tell(m, "container_without_toolkit"); }, tell_another,
     "NVIDIA Container Toolkit"},
    {"told-ptxas-too-old", [](Snapshot& m) { tell(m, "ptxas_arch", "120"); }, tell_another, "CUDA 12.8"},
});

doctor::Examination of_text(std::string_view text) {
  const auto capture = capture::read_capture(text, "paste.txt");
  EXPECT_TRUE(capture.has_value()) << text;
  return examined(capture ? capture->snapshot : Snapshot{});
}

}  // namespace

std::span<const Case> told_cases() { return kTold; }

namespace {

TEST(ToldChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(told_cases()); }

/// A dead driver is an error with a step, in whichever words it is told.
TEST(ToldChecks, ADeadDriverIsAnErrorInEveryForm) {
  for (const std::string_view text :
       {"Failed to initialize NVML: Driver/library version mismatch\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
        "NVIDIA "
        "driver is installed and running.\n",
        "Failed to initialize NVML: Unknown Error\n", "No devices were found\n",
        "Failed to initialize NVML: Insufficient Permissions\n",
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n",
        "pynvml.NVMLError_DriverNotLoaded: Driver Not Loaded\n",
        "nvmlInit failed: NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)\n", "nvmlInit_v2() returned 9\n",
        "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown\n",
        "[    7.1] NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
        "[    7.1] NVRM: The NVIDIA GeForce GTX 1080 GPU installed in this system is\nNVRM:  supported through the "
        "NVIDIA "
        "580.xx Legacy drivers. Please\nNVRM:  information.  The 595.71.05 NVIDIA driver will ignore\nNVRM:  this "
        "GPU.\n",
        "[  5.1] NVRM: RmInitAdapter failed! (0x62:0x40:2393)\n", "[  5.1] NVRM: No NVIDIA GPU found.\n",
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n",
        "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-45-generic\n"}) {
    const auto found = of_text(text);
    EXPECT_GE(found.worst, Severity::error) << text;
    EXPECT_EQ(found.overall, doctor::Status::incompatible) << text;
    ASSERT_FALSE(found.findings.empty()) << text;
    EXPECT_FALSE(found.findings[0].fix.empty()) << text;
  }
}

TEST(ToldChecks, SourceCodeThatNamesAnErrorIsNone) {
  const auto capture = capture::read_capture("  if (result == NVML_ERROR_DRIVER_NOT_LOADED) return 1;\n", "x.c");
  EXPECT_FALSE(capture.has_value());
}

TEST(ToldChecks, ADriverThatAnswersForAGpuIsNotDeadForAQuotedFailure) {
  Snapshot machine = healthy_machine();
  machine.origin = "report.txt: nvidia-smi, an error of nvidia-smi";
  machine.problem = {facts::DriverProblem::Kind::not_loaded,
                     {ErrorCode::unavailable, "no NVIDIA driver is loaded", ""}};
  EXPECT_FALSE(found_in(machine).contains("driver-in-trouble")) << found_in(machine);
}

TEST(ToldChecks, ALegacyGpuGetsItsBranchInTheDistributionsWords) {
  const auto found = of_text(
      "NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=\"12\"\n"
      "[    7.1] NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please\n");
  ASSERT_FALSE(found.findings.empty());
  bool named = false;
  for (const auto& step : found.findings[0].fix) named = named || step.contains("nvidia-driver-pinning-580");
  EXPECT_TRUE(named) << found.findings[0].title;
}

TEST(ToldChecks, UnderSecureBootABuiltModuleThatIsNotLoadedMayBeRefused) {
  Snapshot machine;
  machine.origin = "report.txt: system tools";
  machine.problem = {facts::DriverProblem::Kind::not_loaded,
                     {ErrorCode::unavailable, "no NVIDIA driver is loaded", ""}};
  machine.environment.emplace();
  machine.environment->driver.dkms_version = "580.119.02";
  machine.environment->driver.dkms_built_for = {"6.18.48-amd64"};
  EXPECT_EQ(found_in(machine), "driver-in-trouble");
  machine.environment->host.secure_boot = true;
  EXPECT_EQ(found_in(machine), "secure-boot-unsigned-module");
  machine.environment->host.kernel = "6.19.0-amd64";
  EXPECT_NE(found_in(machine), "secure-boot-unsigned-module") << "there is no module for the kernel that runs";
}

TEST(ToldChecks, GpusOfAnotherMakerAreNoHealthyMachineOfNvidias) {
  Snapshot machine;
  machine.origin = "report.txt: PyTorch collect_env";
  machine.gpus.resize(1);
  machine.gpus[0].gpu.name = "AMD Radeon Graphics";
  machine.gpus[0].gpu.vendor = "AMD";
  const auto found = examined(machine);
  EXPECT_EQ(found.overall, doctor::Status::not_judged);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_THAT(found.findings[0].title, ::testing::HasSubstr("no GPU of NVIDIA's is seen, but AMD Radeon Graphics"));
}

TEST(ToldChecks, AKernelsNameSaysWhoseCommandsAreMeant) {
  const std::pair<std::string_view, std::string_view> kernels[] = {
      {"6.17.0-14-generic", "sudo apt install linux-headers-6.17.0-14-generic"},
      {"5.14.0-503.el9.x86_64", "sudo dnf install kernel-devel-5.14.0-503.el9.x86_64"},
      {"6.12.48+deb13-amd64", "sudo apt install linux-headers-6.12.48+deb13-amd64"}};
  for (const auto& [kernel, command] : kernels) {
    const auto found =
        of_text(fmt::format("Error! Your kernel headers for kernel {0} cannot be found at "
                            "/lib/modules/{0}/build or /lib/modules/{0}/source.\n",
                            kernel));
    ASSERT_FALSE(found.findings.empty()) << kernel;
    EXPECT_EQ(found.findings[0].fix.at(0), command);
  }
  const auto unknown = of_text("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0\n");
  ASSERT_FALSE(unknown.findings.empty());
  EXPECT_TRUE(unknown.findings[0].fix.at(0).starts_with("install linux-headers-6.1.0 with"))
      << unknown.findings[0].fix[0];
}

doctor::ToldFinding told(Severity severity, std::vector<std::string> same_as) {
  doctor::ToldFinding one;
  one.finding.id = "diagnose:test";
  one.finding.severity = severity;
  one.finding.title = "from a log";
  one.same_as = std::move(same_as);
  return one;
}

TEST(ToldFindings, StandBehindTheChecksOwnOfTheirSeverityAndGiveTheVerdict) {
  doctor::Examination found = examined(Snapshot{});
  doctor::add_told(found, {told(Severity::error, {})});
  ASSERT_EQ(found.findings.size(), 1U) << "that no GPU is seen is no news beside it";
  EXPECT_EQ(found.worst, Severity::error);
  EXPECT_EQ(found.overall, doctor::Status::incompatible);
}

TEST(ToldFindings, AreLeftOutWhereACheckSaysTheSameOrTheirAreaIsNotWanted) {
  doctor::Examination found = of_text("No devices were found\n");
  const std::size_t before = found.findings.size();
  doctor::add_told(found, {told(Severity::error, {"driver-in-trouble"})});
  EXPECT_EQ(found.findings.size(), before);
  doctor::add_told(found, {told(Severity::error, {})}, {.only = {"driver"}, .skip = {}});
  EXPECT_EQ(found.findings.size(), before) << "its area is system";
}

}  // namespace
}  // namespace gpuwarden::testing
