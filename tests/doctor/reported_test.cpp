// SPDX-License-Identifier: Apache-2.0
// Each check of quoted error messages, and of purposes: what makes it speak alone, and what only nearly does.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

void quote(Snapshot& machine, std::string_view kind, std::string_view value) {
  software(machine).messages.push_back({std::string(kind), "a line of a log", std::string(value), 12});
}
/// A message of which no check speaks.
void quote_another(Snapshot& machine) { quote(machine, "nccl_timeout", "600"); }

void use_t4_without_cuda(Snapshot& machine) {
  remove_cuda_software(machine);
  use_gpus(machine, "Tesla T4", {7, 5});
}

void use_v100_without_cuda(Snapshot& machine) {
  remove_cuda_software(machine);
  use_gpus(machine, "Tesla V100-SXM2-32GB", {7, 0});
  use_module(machine, facts::ModuleFlavour::proprietary);
}

constexpr auto kReported = std::to_array<Case>({
    {"reported-no-kernel", [](Snapshot& m) { quote(m, "no_kernel_image", ""); }, quote_another, "(line 12)"},
    {"reported-gpu-not-served", [](Snapshot& m) { quote(m, "arch_not_supported", "sm_120"); }, quote_another,
     "sm_120 (line 12)"},
    {"reported-driver-too-old", [](Snapshot& m) { quote(m, "driver_too_old", "11040"); }, quote_another, "CUDA 11.4"},
    {"reported-cuda-error", [](Snapshot& m) { quote(m, "cuda_error", "803"); }, quote_another, "error 803"},
    {"reported-cpu-build", [](Snapshot& m) { quote(m, "no_cuda_build", ""); }, quote_another, "without (line 12)"},
    {"reported-not-available", [](Snapshot& m) { quote(m, "cuda_not_available", ""); }, quote_another,
     "sees no GPU: torch.cuda.is_available() is False (line 12)"},
    {"reported-framework-without-gpu", [](Snapshot& m) { quote(m, "jax_sees_no_gpu", ""); }, quote_another,
     "JAX sees no GPU: its only device is the CPU (line 12)"},
    {"reported-ollama-on-cpu", [](Snapshot& m) { quote(m, "ollama_on_cpu", ""); }, quote_another,
     "ollama found no GPU that it can use"},
    {"reported-glibc-too-old", [](Snapshot& m) { quote(m, "glibc_missing", "2.32"); }, quote_another, "glibc 2.32"},
    {"reported-libstdcxx-too-old", [](Snapshot& m) { quote(m, "glibcxx_missing", "3.4.32"); }, quote_another,
     "of GCC 13.2 (GLIBCXX_3.4.32)"},
    {"reported-library-missing", [](Snapshot& m) { quote(m, "library_missing", "libcudart.so.12"); },
     [](Snapshot& m) { quote(m, "library_missing", "libGL.so.1"); }, "libcudart.so.12"},
    {"reported-build-failure", [](Snapshot& m) { quote(m, "header_missing", "Python.h"); },
     [](Snapshot& m) { quote(m, "header_missing", "cutlass/cutlass"); }, "Python.h"},
    {"reported-ptx-too-new", [](Snapshot& m) { quote(m, "ptx_unsupported", ""); }, quote_another, "PTX"},
    {"reported-capability-too-low", [](Snapshot& m) { quote(m, "capability_needed", "7.5"); }, quote_another, "7.5"},
    {"reported-mig-uuid", [](Snapshot& m) { quote(m, "mig_uuid_as_number", ""); }, quote_another, "MIG UUID"},
});

constexpr auto kPurpose = std::to_array<Case>({
    {"purpose-gpu-too-old", use_v100_without_cuda, [](Snapshot&) {},
     "flash-attn needs compute capability 8.0; GPUs 0-3 have 7.0", "flash-attn", "flash-attn==2.8.3"},
    {"purpose-not-known", [](Snapshot&) {}, [](Snapshot&) {}, "what jax==0.2.0 needs of driver and GPU", "jax==0.2.0",
     "vllm==0.11.0"},
    {"purpose-without-gpu", remove_gpus, [](Snapshot&) {}, "there is no GPU for pytorch==2.9.1+cu130",
     "pytorch==2.9.1+cu130"},
    {"purpose-build-unknown", [](Snapshot&) {}, [](Snapshot&) {}, "PyTorch 2.9.1 has no build cu118",
     "pytorch==2.9.1+cu118", "pytorch==2.9.1+cu126"},
    {"purpose-needs-newer-driver",
     [](Snapshot& m) {
       remove_cuda_software(m);
       use_driver(m, "570.211.01");
     },
     remove_cuda_software, "570.211.01 is installed", "pytorch==2.9.1+cu130"},
    {"purpose-has-no-code-for-gpu", use_v100_without_cuda, use_t4_without_cuda, "has no code for GPUs 0-3",
     "pytorch==2.9.1+cu130"},
    {"purpose-version-chosen", [](Snapshot& m) { remove_package(m, "vllm"); },
     [](Snapshot& m) { remove_package(m, "vllm"); }, "vLLM is not installed;", "vllm", "pytorch"},
    {"purpose-architecture-not-built", [](Snapshot&) {}, [](Snapshot&) {}, "needs CUDA 9.0 to 12.9", "sm_70", "sm_89"},
    {"purpose-needs-more-memory", [](Snapshot&) {}, [](Snapshot&) {}, "train llama-3-70b does not fit 4 x",
     "train llama-3-70b", "train llama-3-8b"},
});

}  // namespace

std::span<const Case> reported_cases() { return kReported; }
std::span<const Case> purpose_cases() { return kPurpose; }

namespace {

TEST(ReportedChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(reported_cases()); }
TEST(PurposeChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(purpose_cases()); }

TEST(PurposeChecks, AWheelWithoutTheGpuAsksNothing) { EXPECT_EQ(found_in(healthy_machine(), "torch==2.9.1+cpu"), ""); }

TEST(PurposeChecks, KernelsForOneGenerationAreForNoLaterOne) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  const auto spoken = [&](int major) {
    for (auto& record : machine.gpus) record.gpu.compute_capability = facts::ComputeCapability{major, 0};
    return found_in(machine, "flash-attn==3").contains("purpose-gpu-too-old");
  };
  EXPECT_TRUE(spoken(8));
  EXPECT_FALSE(spoken(9));
  EXPECT_TRUE(spoken(10));
}

TEST(ReportedChecks, EveryBuildComplaintIsOneFinding) {
  for (const auto& [kind, value] : {std::pair{"cuda_mismatch", "12.6"}, std::pair{"nvcc_arch_unknown", "89"},
                                    std::pair{"unsupported_host_compiler", ""}, std::pair{"host_compiler_missing", ""},
                                    std::pair{"header_missing", "stdlib.h"}}) {
    Snapshot machine = healthy_machine();
    quote(machine, kind, value);
    EXPECT_EQ(found_in(machine), "reported-build-failure") << kind;
  }
}

TEST(ReportedChecks, AnUnknownCudaErrorIsNamedByItsNumber) {
  Snapshot machine = healthy_machine();
  quote(machine, "cuda_error", "719");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].title.contains("719")) << found.findings[0].title;
}

/// The same machine, told of by a text.
Snapshot told_of(Snapshot machine) {
  machine.origin = "report.txt: collect_env";
  return machine;
}

TEST(ReportedChecks, Error802LeadsToAFabricManagerOfTheDriversExactVersion) {
  Snapshot machine = told_of(healthy_machine());
  use_distribution(machine, "ubuntu", "24.04");
  use_driver(machine, "580.105.08");
  quote(machine, "cuda_error", "802");
  EXPECT_THAT(found_in(machine), ::testing::HasSubstr("reported-cuda-error"));
  const std::string fixes = fixes_of(machine);
  EXPECT_THAT(fixes, ::testing::HasSubstr("580.105.08"));
  EXPECT_THAT(fixes, ::testing::HasSubstr("journalctl -u nvidia-fabricmanager"));
  EXPECT_THAT(fixes, ::testing::HasSubstr("grep -A 3 Fabric"));
}

TEST(ReportedChecks, WhatIsToldOfElsewhereIsMendedThere) {
  for (const char* kind : {"no_kernel_image", "arch_not_supported", "driver_too_old", "no_cuda_build",
                           "library_missing", "cuda_mismatch", "nvcc_arch_unknown", "ptx_unsupported"}) {
    Snapshot machine = told_of(healthy_machine());
    const std::string value = std::string_view(kind) == "driver_too_old"      ? "12040"
                              : std::string_view(kind) == "library_missing"   ? "libcudart.so.12"
                              : std::string_view(kind) == "nvcc_arch_unknown" ? "120"
                                                                              : "";
    quote(machine, kind, value);
    const std::string fixes = fixes_of(machine);
    for (const char* here : {"gpuwarden env", "gpuwarden driver", "gpuwarden compat"})
      EXPECT_THAT(fixes, ::testing::Not(::testing::HasSubstr(here))) << kind;
  }
}

TEST(ReportedChecks, ADriverThatIsTooOldGetsTheNewestWheelForIt) {
  Snapshot machine;
  machine.origin = "report.txt: a log";
  machine.environment.emplace();
  quote(machine, "driver_too_old", "11040");
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("download.pytorch.org/whl/cu118"));
  machine.environment->messages.clear();
  quote(machine, "driver_too_old", "12080");
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("download.pytorch.org/whl/cu12"));
}

TEST(ReportedChecks, AnImportThatFailsIsAnErrorAndNamesTheCudaOfItsLibrary) {
  Snapshot machine = told_of(healthy_machine());
  software(machine).messages.push_back(
      {"library_missing", "ImportError: libcudart.so.12: cannot open shared object file", "libcudart.so.12", 3});
  const auto found = examined(machine);
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings[0].id, "reported-library-missing");
  EXPECT_EQ(found.findings[0].severity, doctor::Severity::error);
  EXPECT_THAT(found.findings[0].title, ::testing::HasSubstr("CUDA 12's"));
  machine.environment->messages.back().text = "Could not load dynamic library 'libcudart.so.12'; cannot open";
  EXPECT_EQ(examined(machine).worst, doctor::Severity::warning);
}

TEST(ReportedChecks, AnImportErrorThatAProgramOnlyWarnsOfIsAWarning) {
  Snapshot machine = told_of(healthy_machine());
  auto& messages = software(machine).messages;
  messages.push_back({"library_missing",
                      "WARNING 03-03 10:11:12 [_custom_ops.py:20] Failed to import from vllm._C with "
                      "ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')",
                      "libcudart.so.12", 3});
  EXPECT_EQ(examined(machine).worst, doctor::Severity::warning);
  messages.back().text = "[rank0]: ImportError: libcudart.so.12: cannot open shared object file";
  EXPECT_EQ(examined(machine).worst, doctor::Severity::error);
}

TEST(ReportedChecks, TheDriversOwnLibrariesAreLeftToTheDiagnosis) {
  for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
    Snapshot machine = told_of(healthy_machine());
    software(machine).messages.push_back(
        {"library_missing", fmt::format("ImportError: {}: cannot open shared object file", library), library, 3});
    EXPECT_EQ(found_in(machine), "") << library;
  }
}

TEST(ReportedChecks, AFabricManagerOfAnotherVersionIsTheReasonForError802) {
  Snapshot machine = healthy_machine();
  quote(machine, "cuda_error", "802");
  EXPECT_EQ(found_in(machine), "reported-cuda-error");
  quote(machine, "fabric_version_differs", "570.133.20");
  EXPECT_EQ(found_in(machine), "told-fabric-version");
}

TEST(PurposeChecks, OfAPackageThatIsNotInstalledTheNewestReleasesThatRunHereAreNamed) {
  Snapshot machine = healthy_machine();
  use_driver(machine, "470.82.01");
  remove_cuda_software(machine);
  const std::string on_470 = titles_of(machine, "tensorflow");
  EXPECT_THAT(on_470, ::testing::HasSubstr("tensorflow is not installed; releases 2.11 to 2.14.99 run here"));
  use_driver(machine, "580.105.08");
  EXPECT_THAT(titles_of(machine, "tensorflow"), ::testing::HasSubstr("releases from 2.16.1 on run here"));
  EXPECT_THAT(titles_of(machine, "jax"), ::testing::HasSubstr("jax is not installed; releases from 0.9 on run here"));
  EXPECT_THAT(titles_of(machine, "ollama"), ::testing::HasSubstr("its releases run here"));
}

TEST(PurposeChecks, TheNewestReleasesOfVllmAreNotPinnedToTheFirstOfThem) {
  Snapshot machine = healthy_machine();
  remove_package(machine, "vllm");
  EXPECT_THAT(titles_of(machine, "vllm"), ::testing::HasSubstr("0.28 or later runs here"));
  EXPECT_THAT(fixes_of(machine, "vllm"), ::testing::HasSubstr("pip install 'vllm>=0.28'"));
}

TEST(PurposeChecks, OnAnOlderDriverTheWheelOfItsCudaIsNamed) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_driver(machine, "570.211.01");
  EXPECT_THAT(titles_of(machine, "vllm"), ::testing::HasSubstr("with the wheel for CUDA 12.9"));
  EXPECT_THAT(fixes_of(machine, "vllm"), ::testing::HasSubstr("vllm==0.28.0+cu129"));
}

TEST(PurposeChecks, WhereNoReleaseRunsOnTheDriverTheDriverIsTheStep) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_driver(machine, "418.87.00");
  EXPECT_THAT(titles_of(machine, "vllm"), ::testing::HasSubstr("no release that is known runs here"));
  EXPECT_THAT(fixes_of(machine, "vllm"), ::testing::Not(::testing::HasSubstr("pip install")));
}

TEST(PurposeChecks, WithoutGroundsNothingIsSaidToRun) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  forget_driver(machine);
  for (const char* package : {"vllm", "tensorflow", "pytorch"}) {
    EXPECT_THAT(titles_of(machine, package), ::testing::HasSubstr("was not judged: the driver is not known"));
    EXPECT_THAT(titles_of(machine, package), ::testing::Not(::testing::HasSubstr("run here")));
  }
  Snapshot amd = healthy_machine();
  remove_cuda_software(amd);
  remove_gpus(amd);
  add_amd_gpu(amd, "gfx942");
  EXPECT_THAT(titles_of(amd, "tensorflow"), ::testing::HasSubstr("was not judged: its needs are known for NVIDIA"));
}

TEST(PurposeChecks, AModelsNameIsWorkToServe) {
  const auto purpose = doctor::parse_purpose("Qwen3-32B");
  ASSERT_TRUE(purpose.has_value());
  ASSERT_TRUE(purpose->work.has_value());
  EXPECT_EQ(purpose->work->settings.task, planning::Task::serving);
  EXPECT_EQ(purpose->work->model.name, "Qwen/Qwen3-32B");
  EXPECT_FALSE(doctor::parse_purpose("qwen3").has_value()) << "no size in its name";
}

TEST(PurposeChecks, AMachineThatMeetsItsPurposeIsOptimal) {
  const auto found = examined(healthy_machine(), "pytorch==2.9.1+cu130");
  EXPECT_EQ(found.overall, doctor::Status::optimal) << ::testing::PrintToString(found_in(healthy_machine()));
}

TEST(ReportedChecks, WhoAsksForCudaInVainIsToldByTheBuildThatAnswered) {
  const auto told = [](const char* version) {
    Snapshot machine;
    machine.environment.emplace();
    machine = told_of(std::move(machine));
    quote(machine, "cuda_not_available", "");
    facts::PythonEnvironment& python = software(machine).pythons.emplace_back();
    python.kind = "reported";
    python.packages.push_back({"torch", version, ""});
    return titles_of(machine);
  };
  EXPECT_THAT(told("2.6.0+cpu"), ::testing::HasSubstr("was built without CUDA"));
  for (const char* version : {"2.4.1", "2.6.0a0+ecf3bae40a.nv25.01", "2.6.0+rocm6.2", "2.6.0+cu124"})
    EXPECT_THAT(told(version), ::testing::HasSubstr("sees no GPU")) << version;
  EXPECT_THAT(told("2.6.0+xpu"), ::testing::Not(::testing::HasSubstr("is_available")));
}

TEST(ReportedChecks, AnAmdGpuWithoutCodeTakesARelativesBeforeAnyBuild) {
  const auto steps_for = [](std::string_view gfx) {
    Snapshot machine;
    machine.environment.emplace();
    if (!gfx.empty()) add_amd_gpu(machine, gfx);
    quote(machine, "hip_no_kernel", "");
    return examined(machine).findings.at(0).fix;
  };
  EXPECT_THAT(steps_for("gfx1031")[1], HasSubstr("export HSA_OVERRIDE_GFX_VERSION=10.3.0"));
  EXPECT_THAT(steps_for("gfx1103")[1], HasSubstr("export HSA_OVERRIDE_GFX_VERSION=11.0.0"));
  EXPECT_THAT(steps_for("gfx1031").back(), HasSubstr("PYTORCH_ROCM_ARCH=gfx1031 for the build"));
  // A server's GPU has no relative, and a supported one needs none.
  for (const char* gfx : {"gfx90a", "gfx942", "gfx1100", "gfx803"})
    EXPECT_THAT(steps_for(gfx), Each(Not(HasSubstr("HSA_OVERRIDE")))) << gfx;
  EXPECT_THAT(steps_for("")[1], HasSubstr("rocminfo"));
}

TEST(ReportedChecks, WhereNoGpuIsToldBothKernelModulesAreNamed) {
  Snapshot machine;
  machine.environment.emplace();
  machine.origin = "paste.txt";
  quote(machine, "driver_too_old", "12020");
  const std::string all = fixes_of(machine);
  EXPECT_THAT(all, HasSubstr("with the open kernel module from Turing on (Blackwell takes no other), with the "
                             "proprietary one for GPUs before"));
  facts::GpuRecord& record = machine.gpus.emplace_back();
  record.gpu.vendor = "NVIDIA";
  record.gpu.name = "NVIDIA GeForce RTX 5090";
  record.gpu.compute_capability = facts::ComputeCapability{12, 0};
  EXPECT_THAT(fixes_of(machine), Not(HasSubstr("Turing")));
  EXPECT_THAT(fixes_of(machine), HasSubstr("with the open kernel module, from"));
}

TEST(ReportedChecks, OnUbuntuAGpuThatIsNotKnownGetsTheOtherModuleAsWell) {
  Snapshot machine;
  machine.environment.emplace();
  machine.origin = "paste.txt";
  use_distribution(machine, "ubuntu", "22.04");
  quote(machine, "driver_too_old", "12020");
  EXPECT_THAT(fixes_of(machine), HasSubstr("-open\n"));
  EXPECT_THAT(fixes_of(machine), HasSubstr("for a GPU before Turing (GTX 10 series, P100, V100) with the proprietary"));
}

TEST(ReportedChecks, TensorFlowHasNoGpuOnWindowsItself) {
  Snapshot machine;
  machine.environment.emplace();
  machine = told_of(std::move(machine));
  quote(machine, "tensorflow_sees_no_gpu", "");
  facts::PythonEnvironment& python = software(machine).pythons.emplace_back();
  python.packages.push_back({"tensorflow", "2.16.1", ""});
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("pip install 'tensorflow[and-cuda]==2.16.1'"));
  software(machine).host.distribution = "windows";
  EXPECT_THAT(titles_of(machine), ::testing::HasSubstr("has no GPU support on Windows itself"));
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("wsl --install"));
  software(machine).pythons.clear();
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("wsl --install")) << "a version that is not told";
  software(machine).host.distribution = "macos";
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("tensorflow-metal"));
  EXPECT_THAT(fixes_of(machine), Not(HasSubstr("and-cuda")));
}

}  // namespace
}  // namespace gpuwarden::testing
