// SPDX-License-Identifier: Apache-2.0
// Each check of PyTorch and what stands on it: what makes it speak alone, and what only nearly does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <tuple>
#include <utility>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;
using ::testing::HasSubstr;
using ::testing::Not;

facts::PythonEnvironment& python(Snapshot& machine) { return software(machine).pythons.front(); }

void use_torch_for_rocm(Snapshot& machine) {
  set_package(machine, "torch", "2.9.1+rocm6.4");
  python(machine).torch_cuda.reset();
  python(machine).torch_rocm = "6.4";
}

void use_torch_for_cpu(Snapshot& machine) {
  use_torch(machine, "2.9.1+cpu", "", "0.24.1");
  python(machine).cuda_available = false;
}

void use_old_torch(Snapshot& machine, std::string_view numpy) {
  remove_toolkits(machine);
  use_torch(machine, "2.2.2+cu121", "12.1", "0.17.2");
  python(machine).version = "3.11.2";
  set_package(machine, "numpy", numpy);
}

constexpr auto kFrameworkCases = std::to_array<Case>({
    {"torch-needs-newer-driver",
     [](Snapshot& m) {
       remove_toolkits(m);
       use_driver(m, "550.54.15");
       python(m).cuda_available = false;
     },
     [](Snapshot& m) {
       remove_toolkits(m);
       use_driver(m, "550.54.15");
       use_torch(m, "2.6.0+cu124", "12.4", "0.21.0");
     },
     "PyTorch 2.9.1 (CUDA 13.0) in /srv/venv needs driver 580"},
    {"torch-by-minor-version",
     [](Snapshot& m) {
       remove_toolkits(m);
       use_driver(m, "535.154.05");
       use_torch(m, "2.9.1+cu128", "12.8", "0.24.1");
     },
     [](Snapshot& m) {
       remove_toolkits(m);
       use_driver(m, "570.211.01");
       use_torch(m, "2.9.1+cu128", "12.8", "0.24.1");
     },
     "PyTorch 2.9.1 (CUDA 12.8) in /srv/venv runs on driver 535.154.05, whose own CUDA is 12.2"},
    {"torch-too-old-for-gpu", [](Snapshot& m) { python(m).torch_architectures = {"sm_80", "sm_86"}; },
     [](Snapshot& m) { python(m).torch_architectures = {"sm_80", "compute_80"}; }, "has no code for GPUs 0-3"},
    {"torch-dropped-gpu", use_v100,
     [](Snapshot& m) {
       use_v100(m);
       python(m).torch_architectures = {"sm_70", "sm_80"};
     },
     "Tesla V100-SXM2-32GB, sm_70"},
    {"torch-without-cuda", use_torch_for_cpu,
     [](Snapshot& m) {
       remove_gpus(m);
       use_torch_for_cpu(m);
     },
     "was built without CUDA"},
    {"torch-for-other-maker", use_torch_for_rocm,
     [](Snapshot& m) {
       use_torch_for_rocm(m);
       add_amd_gpu(m, "gfx942");
     },
     "AMD (ROCm)"},
    {"torch-cuda-unavailable", [](Snapshot& m) { python(m).cuda_available = false; },
     [](Snapshot& m) { python(m).cuda_available.reset(); }, "sees no GPU"},
    {"torch-debug-build", [](Snapshot& m) { python(m).torch_debug = true; },
     [](Snapshot& m) { python(m).torch_debug = false; }, "debug build"},
    {"numpy-too-new-for-torch", [](Snapshot& m) { use_old_torch(m, "2.0.1"); },
     [](Snapshot& m) { use_old_torch(m, "1.26.4"); }, "NumPy 2.0.1"},
    {"torch-companions-differ", [](Snapshot& m) { set_package(m, "torchvision", "0.23.0"); },
     [](Snapshot& m) { set_package(m, "torchvision", "0.24.0"); }, "torchvision 0.23.0 (made for PyTorch 2.8)"},
    {"triton-differs-from-torch", [](Snapshot& m) { set_package(m, "triton", "3.4.0"); },
     [](Snapshot& m) { set_package(m, "triton", "3.5.0"); }, "PyTorch 2.9.1 takes: 3.5"},
    {"bitsandbytes-without-cuda", [](Snapshot& m) { add_package(m, "bitsandbytes", "0.47.0"); },
     [](Snapshot& m) { add_package(m, "bitsandbytes", "0.48.2"); }, "has no library for CUDA 13.0"},
    {"python-not-served-by-torch", [](Snapshot& m) { python(m).version = "3.8.10"; },
     [](Snapshot& m) { python(m).version = "3.10.12"; }, "this is 3.8"},
    {"cuda-libraries-of-two-releases", [](Snapshot& m) { add_package(m, "nvidia-cublas-cu11", "11.11.3.6"); },
     [](Snapshot& m) { add_package(m, "nvidia-cusparselt-cu13", "0.8.0"); }, "nvidia-cublas-cu11"},
    {"onnxruntime-twice",
     [](Snapshot& m) {
       add_package(m, "onnxruntime", "1.23.0");
       add_package(m, "onnxruntime-gpu", "1.23.0");
     },
     [](Snapshot& m) { add_package(m, "onnxruntime-gpu", "1.23.0"); }, "onnxruntime-gpu"},
    {"jax-without-cuda", [](Snapshot& m) { add_package(m, "jaxlib", "0.8.0"); },
     [](Snapshot& m) {
       add_package(m, "jaxlib", "0.8.0");
       add_package(m, "jax-cuda13-plugin", "0.8.0");
     },
     "JAX 0.8"},
});

}  // namespace

std::span<const Case> framework_cases() { return kFrameworkCases; }

namespace {

TEST(FrameworkChecks, TheBitsandbytesThatHasTheCudaIsNamed) {
  Snapshot machine = healthy_machine();
  add_package(machine, "bitsandbytes", "0.47.0");
  EXPECT_THAT(fixes_of(machine), HasSubstr("'bitsandbytes>=0.50'"));
  // From 0.50 on one of the same major release will do; of a CUDA that is left out the last that had it is named.
  Snapshot old = healthy_machine();
  use_torch(old, "2.0.1+cu117", "11.7", "0.15.2+cu117");
  add_package(old, "bitsandbytes", "0.46.1");
  EXPECT_THAT(fixes_of(old), HasSubstr("bitsandbytes==0.45.5"));
  set_variable(machine, "BNB_CUDA_VERSION", "129");
  EXPECT_THAT(fixes_of(machine), Not(HasSubstr("bitsandbytes")));
}

TEST(FrameworkChecks, SomebodysOwnBuildsAreHeldAgainstNoPin) {
  Snapshot machine = healthy_machine();
  set_package(machine, "triton", "3.4.0+git1234567");
  EXPECT_EQ(found_in(machine), "");
}

TEST(FrameworkChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(framework_cases()); }

TEST(FrameworkChecks, ATorchThatRunsByCudaCompatIsNoError) {
  Snapshot machine = healthy_machine();
  remove_toolkits(machine);
  use_driver(machine, "550.54.15");
  python(machine).cuda_available = true;
  const auto found = examined(machine);
  EXPECT_EQ(found_in(machine), "driver-end-of-life torch-needs-newer-driver");
  EXPECT_EQ(found.worst, doctor::Severity::info) << found.findings[0].title;
}

TEST(FrameworkChecks, ACompanionForAnotherCudaDoesNotGoWithPyTorch) {
  Snapshot machine = healthy_machine();
  set_package(machine, "torchvision", "0.24.1+cu126");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].id, "torch-companions-differ");
  EXPECT_TRUE(found.findings[0].title.contains("torchvision 0.24.1+cu126 (PyTorch is built for cu130)"))
      << found.findings[0].title;
  EXPECT_TRUE(fixes_of(machine).contains("whl/cu130 torchvision==0.24.1+cu130")) << "pip would keep 0.24.1+cu126";
}

TEST(FrameworkChecks, EachCompanionOfAnotherPyTorchIsNamedWithTheStep) {
  for (const auto& [package, version, says] :
       {std::tuple{"torchaudio", "2.5.1", "torchaudio 2.5.1 (made for PyTorch 2.5)"},
        {"torchaudio", "2.8.0+cu128", "torchaudio 2.8.0+cu128 (made for PyTorch 2.8)"},
        {"torchaudio", "2.11.1", "torchaudio 2.11.1 (made for PyTorch 2.11 or newer)"},
        {"xformers", "0.0.28.post3", "xformers 0.0.28.post3 (made for PyTorch 2.5.1)"},
        {"xformers", "0.0.34", "xformers 0.0.34 (made for PyTorch 2.10.0 or newer)"},
        {"xformers", "0.0.33.post2+cu128", "xformers 0.0.33.post2+cu128 (PyTorch is built for cu130)"},
        {"torchaudio", "2.9.1+cu118", "torchaudio 2.9.1+cu118 (PyTorch is built for cu130)"}}) {
    Snapshot machine = healthy_machine();
    add_package(machine, package, version);
    EXPECT_EQ(found_in(machine), "torch-companions-differ") << package << version;
    EXPECT_TRUE(titles_of(machine).contains(says)) << titles_of(machine);
    EXPECT_TRUE(fixes_of(machine).contains("'torch==2.9.1'") || fixes_of(machine).contains("torch==2.9.1"));
    EXPECT_TRUE(fixes_of(machine).contains(package)) << fixes_of(machine);
  }
  for (const auto& [package, version] : {std::pair{"torchaudio", "2.9.1"},
                                         {"torchaudio", "2.11.0"},
                                         {"xformers", "0.0.33.post2"},
                                         {"xformers", "0.0.99"}}) {
    Snapshot machine = healthy_machine();
    add_package(machine, package, version);
    EXPECT_EQ(found_in(machine), "") << package << version;
  }
}

TEST(FrameworkChecks, ACompanionWithoutAReleaseForThePyTorchIsInstalledAnewAllTheSame) {
  Snapshot machine = healthy_machine();
  remove_toolkits(machine);
  use_torch(machine, "2.11.0+cu128", "12.8", "0.26.0");
  add_package(machine, "torchaudio", "2.5.1");
  EXPECT_TRUE(titles_of(machine).contains("torchaudio 2.5.1 (made for PyTorch 2.5)")) << titles_of(machine);
  EXPECT_TRUE(fixes_of(machine).contains("whl/cu128 torchvision torchaudio")) << fixes_of(machine);
}

TEST(FrameworkChecks, AnImportThatMissesTorchvisionsOperatorsIsACompanionOfAnotherPyTorch) {
  Snapshot machine = healthy_machine();
  software(machine).messages.push_back(
      {"torchvision_operator", "RuntimeError: operator torchvision::nms does not exist", "", 8});
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].id, "torch-companions-differ");
  EXPECT_EQ(found.findings[0].severity, doctor::Severity::error);
  EXPECT_TRUE(found.findings[0].title.contains("(line 8)")) << found.findings[0].title;
}

TEST(FrameworkChecks, WhatXformersSaysItWasBuiltForIsHeldAgainstThisPyTorch) {
  const auto say = [](const char* made, const char* here) {
    Snapshot machine = healthy_machine();
    software(machine).messages.push_back(
        {"xformers_other_build", std::string("PyTorch ") + made + " with CUDA 1204 (you have " + here + ")", here, 2});
    return machine;
  };
  const Snapshot nightly = say("2.6.0+cu124", "2.8.0.dev20250331+cu128");
  const auto found = examined(nightly);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].id, "torch-companions-differ");
  EXPECT_EQ(found.findings[0].severity, doctor::Severity::warning);
  EXPECT_EQ(found.findings[0].title,
            "xFormers was built for PyTorch 2.6.0+cu124, this is 2.8.0.dev20250331+cu128 (line 2): its kernels are not "
            "used");
  EXPECT_TRUE(fixes_of(nightly).starts_with("pip uninstall -y xformers")) << fixes_of(nightly);
  EXPECT_TRUE(fixes_of(say("2.9.0+cu128", "2.9.1+cu130"))
                  .contains("xformers==0.0.33.post2 --index-url https://download.pytorch.org/whl/cu130"));
  // Another Python alone is told with the same PyTorch twice.
  EXPECT_EQ(found_in(say("2.9.1+cu130", "2.9.1+cu130")), "");
}

TEST(FrameworkChecks, APyTorchOfUnknownVersionThatSeesNoGpuIsNamed) {
  Snapshot machine;
  machine.origin = "report.txt: collect_env";
  machine.gpus.emplace_back().gpu.name = "Orin (nvgpu)";
  auto& python = machine.environment.emplace().pythons.emplace_back();
  EXPECT_FALSE(found_in(machine).contains("torch-cuda-unavailable"));
  python.cuda_available = false;
  EXPECT_TRUE(found_in(machine).contains("torch-cuda-unavailable")) << found_in(machine);
}

TEST(FrameworkChecks, TheFixForADroppedGpuIsAWheelThatHasItsCode) {
  Snapshot machine = healthy_machine();
  use_v100(machine);
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].fix[0].contains("/whl/cu126")) << found.findings[0].fix[0];
}

TEST(FrameworkChecks, NoWheelIsRuledOutForAnArchitectureThatIsNotKnown) {
  Snapshot machine = healthy_machine();
  use_torch(machine, "2.9.1+cpu", "", "0.24.1+cpu");
  use_gpus(machine, "NVIDIA Z9000", {9, 0});
  for (auto& record : machine.gpus) record.gpu.compute_capability.reset();
  const std::string fixes = fixes_of(machine);
  EXPECT_TRUE(fixes.contains("this GPU's architecture is unknown")) << fixes;
  EXPECT_FALSE(fixes.contains("no PyTorch wheel fits")) << fixes;
}

TEST(FrameworkChecks, AnotherPyTorchBringsWhatIsMadeForIt) {
  facts::Snapshot machine = healthy_machine();
  use_torch_for_cpu(machine);
  EXPECT_THAT(fixes_of(machine), ::testing::ContainsRegex("install torch==[0-9.]+ --index-url [^ ]+ torchvision"));
  auto& packages = software(machine).pythons.front().packages;
  std::erase_if(packages, [](const facts::PythonPackage& one) { return one.name == "torchvision"; });
  EXPECT_THAT(fixes_of(machine), ::testing::Not(::testing::HasSubstr("torchvision")));
}

}  // namespace
}  // namespace gpuwarden::testing
