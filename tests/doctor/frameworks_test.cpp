// SPDX-License-Identifier: Apache-2.0
// Each check of PyTorch and what stands on it: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

facts::PythonEnvironment& python(Snapshot& machine) { return software(machine).pythons.front(); }

void remove_toolkits(Snapshot& machine) {
  software(machine).toolkits.clear();
  software(machine).variables.clear();
}

void use_v100(Snapshot& machine) {
  remove_toolkits(machine);
  use_gpus(machine, "Tesla V100-SXM2-32GB", {7, 0});
  use_module(machine, facts::ModuleFlavour::proprietary);
}

void use_5090(Snapshot& machine) { use_gpus(machine, "NVIDIA GeForce RTX 5090", {12, 0}); }
void use_t4(Snapshot& machine) { use_gpus(machine, "Tesla T4", {7, 5}); }

void add_amd_gpu(Snapshot& machine, std::string_view architecture) {
  facts::GpuRecord record;
  record.gpu.index = GpuIndex{4};
  record.gpu.vendor = "AMD";
  record.gpu.name = "AMD Radeon";
  record.gpu.architecture = architecture;
  machine.gpus.push_back(record);
}

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

void use_vllm_on_torch_27(Snapshot& machine, std::string_view vllm) {
  remove_toolkits(machine);
  use_torch(machine, "2.7.0+cu128", "12.8", "0.22.0");
  add_package(machine, "vllm", vllm);
}

void use_vllm_20(Snapshot& machine) {
  use_torch(machine, "2.11.0+cu126", "12.6", "0.26.0");
  python(machine).torch_architectures = {"sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"};
  add_package(machine, "vllm", "0.20.0");
}

void use_only_vllm_20(Snapshot& machine, std::string_view driver) {
  remove_toolkits(machine);
  use_driver(machine, driver);
  remove_package(machine, "torch");
  python(machine).torch_cuda.reset();
  add_package(machine, "vllm", "0.20.0");
}

void divide(Snapshot& machine) {
  for (auto& record : machine.gpus) {
    record.gpu.mig_enabled = record.gpu.mig_pending = true;
    record.mig_devices.emplace_back();
  }
}

void add_a100(Snapshot& machine) {
  machine.gpus[3].gpu.name = "NVIDIA A100-SXM4-80GB";
  machine.gpus[3].gpu.compute_capability = {8, 0};
  machine.gpus[3].gpu.pci_device_id.reset();
}

constexpr auto kCases = std::to_array<Case>({
    {"torch-needs-newer-driver",
     [](Snapshot& m) {
       remove_toolkits(m);
       use_driver(m, "550.54.15");
       python(m).cuda_available = false;
     },
     [](Snapshot& m) {
       remove_toolkits(m);
       use_driver(m, "550.54.15");
       use_torch(m, "2.9.1+cu128", "12.8", "0.24.1");
     },
     "PyTorch 2.9.1 (CUDA 13.0) in /srv/venv needs driver 580"},
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
     [](Snapshot& m) { set_package(m, "torchvision", "0.24.0"); }, "torchvision 0.23 (needs 0.24)"},
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
    {"vllm-torch-differs", [](Snapshot& m) { add_package(m, "vllm", "0.11.0"); },
     [](Snapshot& m) { add_package(m, "vllm", "0.15.1"); }, "vLLM 0.11 is built for PyTorch 2.8"},
    {"vllm-gpu-too-old",
     [](Snapshot& m) {
       use_v100(m);
       use_vllm_20(m);
     },
     [](Snapshot& m) {
       remove_toolkits(m);
       use_vllm_20(m);
     },
     "vLLM 0.20 needs compute capability 7.5"},
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
     [](Snapshot& m) { set_package(m, "triton", "3.2.0"); }, "Triton 3.2"},
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
    {"flashinfer-differs-from-torch", [](Snapshot& m) { add_package(m, "flashinfer", "0.2.1+cu124torch2.4"); },
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
       add_package(m, "vllm", "0.15.1");
     },
     [](Snapshot& m) {
       add_amd_gpu(m, "gfx942");
       add_package(m, "vllm", "0.15.1");
     },
     "gfx1030"},
    {"vllm-built-from-source", [](Snapshot& m) { add_package(m, "vllm", "0.15.1.dev12+g1a2b3c4"); },
     [](Snapshot& m) { add_package(m, "vllm", "0.15.1"); }, "0.15.1.dev12"},
    {"gpus-of-several-generations",
     [](Snapshot& m) {
       add_a100(m);
       add_package(m, "sglang", "0.5.5");
     },
     add_a100, "(9.0, 8.0)"},
});

}  // namespace

std::span<const Case> framework_cases() { return kCases; }

namespace {

TEST(FrameworkChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(framework_cases()); }

TEST(FrameworkChecks, ATorchThatRunsByCudaCompatIsNoError) {
  Snapshot machine = healthy_machine();
  remove_toolkits(machine);
  use_driver(machine, "550.54.15");
  python(machine).cuda_available = true;
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.worst, doctor::Severity::info) << found.findings[0].title;
}

TEST(FrameworkChecks, TheFixForADroppedGpuIsAWheelThatHasItsCode) {
  Snapshot machine = healthy_machine();
  use_v100(machine);
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].fix[0].contains("/whl/cu126")) << found.findings[0].fix[0];
}

}  // namespace
}  // namespace gpuwarden::testing
