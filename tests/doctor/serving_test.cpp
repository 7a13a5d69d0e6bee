// SPDX-License-Identifier: Apache-2.0
// Each check of serving engines: what makes it speak alone, and what only nearly does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

facts::PythonEnvironment& serving_python(Snapshot& machine) { return software(machine).pythons.front(); }
void use_5090(Snapshot& machine) { use_gpus(machine, "NVIDIA GeForce RTX 5090", {12, 0}); }
void use_t4(Snapshot& machine) { use_gpus(machine, "Tesla T4", {7, 5}); }

void use_vllm_on_torch_27(Snapshot& machine, std::string_view vllm) {
  remove_toolkits(machine);
  use_torch(machine, "2.7.0+cu128", "12.8", "0.22.0");
  add_package(machine, "vllm", vllm);
}

void use_vllm_20(Snapshot& machine) {
  use_torch(machine, "2.11.0+cu126", "12.6", "0.26.0");
  serving_python(machine).torch_architectures = {"sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"};
  add_package(machine, "vllm", "0.20.0");
}

void use_only_vllm_20(Snapshot& machine, std::string_view driver) {
  remove_toolkits(machine);
  use_driver(machine, driver);
  remove_package(machine, "torch");
  serving_python(machine).torch_cuda.reset();
  add_package(machine, "vllm", "0.20.0");
}

void divide(Snapshot& machine) {
  for (auto& record : machine.gpus) {
    record.gpu.mig_enabled = record.gpu.mig_pending = true;
    record.mig_devices.emplace_back();
  }
}

void use_vllm_beside_cuda_eleven(Snapshot& machine, std::string_view vllm) {
  remove_toolkits(machine);
  use_torch(machine, "2.4.0+cu118", "11.8", "0.19.0");
  serving_python(machine).torch_architectures = {"sm_80", "sm_90"};
  add_package(machine, "vllm", vllm);
}

void add_a100(Snapshot& machine) {
  machine.gpus[3].gpu.name = "NVIDIA A100-SXM4-80GB";
  machine.gpus[3].gpu.compute_capability = {8, 0};
  machine.gpus[3].gpu.pci_device_id.reset();
}

constexpr auto kServingCases = std::to_array<Case>({
    {"vllm-cuda-differs", [](Snapshot& m) { use_vllm_beside_cuda_eleven(m, "0.6.3"); },
     [](Snapshot& m) { use_vllm_beside_cuda_eleven(m, "0.6.3+cu118"); }, "vLLM 0.6.3's wheel is built for CUDA 12.1"},
    {"jit-compiler-missing",
     [](Snapshot& m) {
       software(m).compilers.clear();
       software(m).compilers_sought = true;
     },
     [](Snapshot& m) { software(m).compilers.clear(); }, "no C compiler"},
    {"vllm-torch-differs", [](Snapshot& m) { add_package(m, "vllm", "0.11.0"); },
     [](Snapshot& m) { add_package(m, "vllm", "0.15.1+cu130"); }, "vLLM 0.11 is built for PyTorch 2.8"},
    {"vllm-gpu-too-old",
     [](Snapshot& m) {
       use_v100(m);
       use_vllm_20(m);
     },
     [](Snapshot& m) {
       remove_toolkits(m);
       use_vllm_20(m);
     },
     "vLLM 0.20's wheel needs compute capability 7.5"},
    {"vllm-needs-newer-driver", [](Snapshot& m) { use_only_vllm_20(m, "570.211.01"); },
     [](Snapshot& m) { use_only_vllm_20(m, "580.65.06"); }, "570.211.01 is installed"},
    {"vllm-without-blackwell-kernels",
     [](Snapshot& m) {
       use_5090(m);
       use_vllm_on_torch_27(m, "0.9.0");
     },
     [](Snapshot& m) {
       use_5090(m);
       use_vllm_on_torch_27(m, "0.9.2");
     },
     "RTX 5090"},
    {"triton-too-old-for-gpu",
     [](Snapshot& m) {
       use_5090(m);
       set_package(m, "triton", "3.2.0");
     },
     [](Snapshot& m) {
       use_5090(m);
       set_package(m, "triton", "3.5.0");
     },
     "Triton 3.2"},
    {"gpu-before-ampere-for-llm",
     [](Snapshot& m) {
       use_t4(m);
       add_package(m, "sglang", "0.5.5");
     },
     use_t4, "which sglang expects"},
    {"flash-attention-gpu-too-old",
     [](Snapshot& m) {
       use_t4(m);
       add_package(m, "flash-attn", "2.8.3");
     },
     [](Snapshot& m) {
       use_t4(m);
       add_package(m, "flash-attn", "1.0.9");
     },
     "flash-attn 2.8.3 needs Ampere"},
    {"extension-differs-from-torch", [](Snapshot& m) { add_package(m, "flashinfer", "0.2.1+cu124torch2.4"); },
     [](Snapshot& m) { add_package(m, "flashinfer", "0.5.0+cu130torch2.9"); }, "is built for PyTorch 2.4"},
    {"vllm-reads-no-mig-uuids",
     [](Snapshot& m) {
       divide(m);
       use_vllm_on_torch_27(m, "0.9.2");
     },
     [](Snapshot& m) {
       divide(m);
       use_vllm_on_torch_27(m, "0.10.1");
     },
     "vLLM 0.9.2"},
    {"vllm-without-kernels-for-amd-gpu",
     [](Snapshot& m) {
       add_amd_gpu(m, "gfx1030");
       add_package(m, "vllm", "0.15.1+cu130");
     },
     [](Snapshot& m) {
       add_amd_gpu(m, "gfx942");
       add_package(m, "vllm", "0.15.1+cu130");
     },
     "gfx1030"},
    {"vllm-built-from-source", [](Snapshot& m) { add_package(m, "vllm", "0.15.1.dev12+g1a2b3c4"); },
     [](Snapshot& m) { add_package(m, "vllm", "0.15.1+cu130"); }, "0.15.1.dev12"},
    {"gpus-of-several-generations",
     [](Snapshot& m) {
       add_a100(m);
       add_package(m, "sglang", "0.5.5");
     },
     add_a100, "(9.0, 8.0)"},
});

}  // namespace

std::span<const Case> serving_cases() { return kServingCases; }

namespace {

TEST(ServingChecks, AnExtensionIsHeldAgainstThePyTorchAndCudaThatItsVersionNames) {
  for (const auto& [name, version] : {std::pair{"flash-attn", "2.7.4.post1+cu12torch2.6cxx11abiFALSE"},
                                      {"flashinfer-python", "0.5.0+cu126torch2.9"},
                                      {"torch-scatter", "2.1.2+pt25cu124"}}) {
    Snapshot machine = healthy_machine();
    add_package(machine, name, version);
    EXPECT_EQ(found_in(machine), "extension-differs-from-torch") << name;
  }
  Snapshot machine = healthy_machine();
  add_package(machine, "flash-attn", "2.8.3+cu13torch2.9cxx11abiTRUE");
  EXPECT_EQ(found_in(machine), "");
}

TEST(ServingChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(serving_cases()); }

TEST(ServingChecks, VllmForCudaTwelveBesideAPyTorchThatBringsOnlyThirteenIsNamed) {
  Snapshot machine = healthy_machine();
  add_package(machine, "vllm", "0.15.1");
  EXPECT_EQ(found_in(machine), "vllm-cuda-differs");
  add_package(machine, "nvidia-cuda-runtime-cu12", "12.9.79");
  EXPECT_FALSE(found_in(machine).contains("vllm-cuda-differs")) << "its libraries are there";
}

TEST(ServingChecks, ATritonForBlackwellIsOneThatThePyTorchTakes) {
  Snapshot machine = healthy_machine();
  machine.origin = "report.txt";
  use_gpus(machine, "NVIDIA B200", {10, 0});
  use_torch(machine, "2.7.1+cu128", "12.8", "0.22.1");
  remove_toolkits(machine);
  set_package(machine, "triton", "3.3.0");
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("pip install triton==3.3.1"));
  use_torch(machine, "2.9.1+cu130", "13.0", "0.24.1");
  set_package(machine, "triton", "3.3.0");
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("pip install 'triton==3.5.*'"));
  use_torch(machine, "2.8.0.dev20250331+cu128", "12.8", "0.22.1");
  set_package(machine, "triton", "3.3.0");
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("pip install 'triton>=3.3.1'")) << "a nightly's is not known";
}

}  // namespace
}  // namespace gpuwarden::testing
