// SPDX-License-Identifier: Apache-2.0
// Reports of the software around GPUs, in texts of our own in the shapes that the tools print.
#include "capture/env_report.hpp"

#include "capture/reading.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "support/environment_parts.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kCollectEnv =
    "Collecting environment information...\n"
    "PyTorch version: 2.5.1+cu124\n"
    "Is debug build: False\n"
    "CUDA used to build PyTorch: 12.4\n"
    "ROCM used to build PyTorch: N/A\n"
    "\n"
    "OS: Ubuntu 22.04.4 LTS (x86_64)\n"
    "GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
    "Clang version: Could not collect\n"
    "Libc version: glibc-2.35\n"
    "\n"
    "Python version: 3.10.12 (main, Nov 20 2023) [GCC 11.4.0] (64-bit runtime)\n"
    "Python platform: Linux-5.15.167.4-microsoft-standard-WSL2-x86_64-with-glibc2.35\n"
    "Is CUDA available: True\n"
    "CUDA runtime version: 12.1.105\n"
    "GPU models and configuration: \n"
    "GPU 0: NVIDIA A100-SXM4-80GB\n"
    "  MIG 3g.40gb     Device  0:\n"
    "GPU 1: NVIDIA A100-SXM4-80GB\n"
    "\n"
    "Nvidia driver version: 550.54.15\n"
    "cuDNN version: Probably one of the following:\n"
    "/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.2\n"
    "/usr/lib/x86_64-linux-gnu/libcudnn_ops_infer.so.8.9.2\n"
    "HIP runtime version: N/A\n"
    "\n"
    "CPU:\n"
    "Architecture:                    x86_64\n"
    "CPU(s):                          80\n"
    "Model name:                      Some CPU\n"
    "Hypervisor vendor:               Microsoft\n"
    "NUMA node(s):                    2\n"
    "\n"
    "Versions of relevant libraries:\n"
    "[pip3] numpy==1.26.4\n"
    "[pip3] nvidia-nccl-cu12==2.21.5\n"
    "[pip3] torch==2.5.1\n"
    "[conda] flash_attn                2.6.3                    pypi_0    pypi\n"
    "vLLM Version: 0.6.3.post1@abcdef\n"
    "GPU Topology:\n"
    "Could not collect\n"
    "CUDA_VISIBLE_DEVICES=0,1\n"
    "LD_LIBRARY_PATH=/usr/local/cuda/lib64:\n"
    "HF_TOKEN=never\n";

TEST(CollectEnv, FillsGpusAndTheSoftwareAroundThem) {
  const auto snapshot = snapshot_of(kCollectEnv);
  EXPECT_THAT(snapshot.origin, HasSubstr("PyTorch collect_env"));
  EXPECT_EQ(snapshot.driver_version, "550.54.15");
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[1].gpu.name, "NVIDIA A100-SXM4-80GB");
  ASSERT_EQ(snapshot.gpus[0].mig_devices.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].mig_devices[0].profile, "3g.40gb");
  ASSERT_TRUE(snapshot.environment);
  const auto& environment = *snapshot.environment;
  const auto& host = environment.host;
  EXPECT_EQ(host.distribution, "ubuntu");
  EXPECT_EQ(host.distribution_version, "22.04.4");
  EXPECT_EQ(host.libc, "2.35");
  EXPECT_EQ(host.wsl, 2);
  EXPECT_EQ(host.kernel, "5.15.167.4-microsoft-standard-WSL2");
  EXPECT_EQ(host.cpus, 80);
  EXPECT_EQ(host.hypervisor, "microsoft");
  ASSERT_EQ(environment.pythons.size(), 1U);
  const auto& python = environment.pythons[0];
  EXPECT_EQ(python.version, "3.10.12");
  EXPECT_EQ(python.torch_cuda, "12.4");
  EXPECT_EQ(python.cuda_available, true);
  EXPECT_EQ(facts::find_package(python, "torch")->version, "2.5.1+cu124") << "its own word is more exact than pip's";
  EXPECT_EQ(facts::find_package(python, "flash-attn")->version, "2.6.3");
  EXPECT_EQ(facts::find_package(python, "vllm")->version, "0.6.3.post1");
  ASSERT_EQ(environment.toolkits.size(), 1U);
  EXPECT_EQ(environment.toolkits[0].version, "12.1.105");
  ASSERT_EQ(environment.libraries.size(), 1U) << "cuDNN itself, not its parts";
  EXPECT_EQ(environment.libraries[0].version, "8.9.2");
  ASSERT_EQ(environment.compilers.size(), 1U);
  EXPECT_EQ(environment.compilers[0].version, "11.4.0");
  EXPECT_NE(facts::find_variable(environment, "CUDA_VISIBLE_DEVICES"), nullptr);
  EXPECT_EQ(facts::find_variable(environment, "HF_TOKEN"), nullptr) << "secrets are never gathered";
}

TEST(CollectEnv, TheSectionedFormAndTheOldFormSayTheSame) {
  const auto sectioned = snapshot_of(
      "==============================\n        PyTorch Info\n==============================\n"
      "PyTorch version              : 2.7.0+cu128\n"
      "CUDA used to build PyTorch   : 12.8\n"
      "Is CUDA available            : False\n"
      "GPU models and configuration : GPU 0: NVIDIA H100 80GB HBM3\n"
      "Nvidia driver version        : 570.86.15\n");
  EXPECT_EQ(sectioned.driver_version, "570.86.15");
  ASSERT_EQ(sectioned.gpus.size(), 1U);
  EXPECT_EQ(sectioned.environment->pythons[0].cuda_available, false);
  const auto old = snapshot_of(
      "PyTorch version: 0.4.1\nIs debug build: No\nCUDA used to build PyTorch: 9.0.176\n\n"
      "GPU models and configuration: GPU 0: GeForce GTX 1080 Ti\nNvidia driver version: 396.54\n"
      "[pip] numpy (1.15.0)\n");
  EXPECT_EQ(old.driver_version, "396.54");
  EXPECT_EQ(old.gpus.at(0).gpu.name, "GeForce GTX 1080 Ti");
  EXPECT_EQ(facts::find_package(old.environment->pythons[0], "numpy")->version, "1.15.0");
}

TEST(CollectEnv, WhatCouldNotBeCollectedIsUnknown) {
  const auto snapshot = snapshot_of(
      "PyTorch version: 2.4.0+cpu\nCUDA used to build PyTorch: None\nROCM used to build PyTorch: N/A\n"
      "Is CUDA available: False\nCUDA runtime version: No CUDA\nGPU models and configuration: No CUDA\n"
      "Nvidia driver version: No CUDA\ncuDNN version: Could not collect\n");
  EXPECT_THAT(snapshot.gpus, IsEmpty());
  EXPECT_EQ(snapshot.driver_version, std::nullopt);
  EXPECT_THAT(snapshot.environment->toolkits, IsEmpty());
  EXPECT_EQ(snapshot.environment->pythons[0].torch_cuda, "") << "built without CUDA, which is not the same as unknown";
}

TEST(CollectEnv, AnAmdMachineIsOne) {
  const auto snapshot = snapshot_of(
      "PyTorch version: 2.5.0+rocm6.2\nCUDA used to build PyTorch: N/A\nROCM used to build PyTorch: 6.2.41133\n"
      "Is CUDA available: True\nGPU models and configuration: AMD Instinct MI250X (gfx90a:sramecc+:xnack-)\n");
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.vendor, "AMD");
  EXPECT_EQ(snapshot.gpus[0].gpu.architecture, "gfx90a");
  EXPECT_EQ(snapshot.environment->pythons[0].torch_rocm, "6.2.41133");
}

TEST(SglangEnv, ListsGpusByTheirNumbersWithTheirCapability) {
  const auto snapshot = snapshot_of(
      "Python: 3.10.12 (main, Jan 17 2025) [GCC 11.4.0]\nCUDA available: True\nGPU 0,1,3: NVIDIA L40\n"
      "GPU 0,1,3 Compute Capability: 8.9\nCUDA_HOME: /usr/local/cuda\n"
      "NVCC: Cuda compilation tools, release 12.4, V12.4.131\nCUDA Driver Version: 550.90.07\n"
      "PyTorch: 2.5.1+cu124\nsglang: 0.4.3.post2\nsgl_kernel: 0.0.3.post6\ntriton: 3.1.0\nvllm: Module Not Found\n");
  EXPECT_EQ(snapshot.driver_version, "550.90.07");
  ASSERT_EQ(snapshot.gpus.size(), 3U);
  EXPECT_EQ(snapshot.gpus[2].gpu.index, GpuIndex{3});
  EXPECT_EQ(snapshot.gpus[2].gpu.compute_capability, (facts::ComputeCapability{8, 9}));
  EXPECT_EQ(snapshot.environment->toolkits.at(0).version, "12.4.131");
  EXPECT_EQ(snapshot.environment->toolkits.at(0).path, "/usr/local/cuda");
  const auto& python = snapshot.environment->pythons.at(0);
  EXPECT_EQ(facts::find_package(python, "sgl-kernel")->version, "0.0.3.post6");
  EXPECT_EQ(facts::find_package(python, "vllm"), nullptr);
}

TEST(DsReport, DotsStandForColons) {
  const auto snapshot = snapshot_of(
      "DeepSpeed general environment info:\n"
      "torch install path ............... ['/opt/conda/lib/python3.10/site-packages/torch']\n"
      "torch version .................... 2.1.0+cu118\n"
      "deepspeed info ................... 0.12.3, unknown, unknown\n"
      "torch cuda version ............... 11.8\n"
      "torch hip version ................ None\n"
      "nvcc version ..................... 12.1\n"
      "deepspeed wheel compiled w. ...... torch 2.1, cuda 11.8\n");
  const auto& python = snapshot.environment->pythons.at(0);
  EXPECT_EQ(python.torch_cuda, "11.8");
  EXPECT_EQ(facts::find_package(python, "deepspeed")->version, "0.12.3");
  EXPECT_EQ(snapshot.environment->toolkits.at(0).version, "12.1");
}

TEST(SglangEnv, EachGroupOfGpusHasItsCapability) {
  const auto snapshot = snapshot_of(
      "CUDA available: True\nGPU 0,1: NVIDIA GeForce RTX 4090\nGPU 2: NVIDIA GeForce RTX 3090\n"
      "GPU 0,1 Compute Capability: 8.9\nGPU 2 Compute Capability: 8.6\nCUDA Driver Version: 550.90.07\n");
  ASSERT_EQ(snapshot.gpus.size(), 3U);
  EXPECT_EQ(snapshot.gpus[1].gpu.compute_capability, (facts::ComputeCapability{8, 9}));
  EXPECT_EQ(snapshot.gpus[2].gpu.compute_capability, (facts::ComputeCapability{8, 6}));
}

TEST(SglangEnv, LineEndsMayHaveBecomeBlanksOrLogPrefixes) {
  const auto pasted = snapshot_of(
      "warnings.warn(message)            CUDA available: True            GPU 0,1: NVIDIA H20            \n"
      "GPU 0,1 Compute Capability: 9.0             CUDA_HOME: /usr/local/cuda\n"
      "NVCC: Cuda compilation tools, release 12.4, V12.4.131          CUDA Driver Version: 535.161.08\n");
  EXPECT_EQ(pasted.gpus.size(), 2U);
  EXPECT_EQ(pasted.gpus.at(0).gpu.compute_capability, (facts::ComputeCapability{9, 0}));
  EXPECT_EQ(pasted.driver_version, "535.161.08");
  EXPECT_EQ(pasted.environment->toolkits.at(0).path, "/usr/local/cuda");
  const auto logged = snapshot_of(
      "INFO 2025-04-06T03:02:45.843415975Z CUDA available: True\n"
      "INFO 2025-04-06T03:02:45.843419551Z CUDA Driver Version: 550.90.07\n");
  EXPECT_EQ(logged.driver_version, "550.90.07");
}

TEST(LibraryEnv, AccelerateTellsPytorchAndAGpu) {
  const auto snapshot = snapshot_of(
      "- `Accelerate` version: 0.34.2\n- Platform: Linux-5.15.0-91-generic-x86_64-with-glibc2.35\n"
      "- Python version: 3.10.12\n- PyTorch version (GPU?): 2.4.1+cu121 (True)\n- GPU type: NVIDIA A100-SXM4-40GB\n");
  EXPECT_EQ(snapshot.gpus.at(0).gpu.name, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(snapshot.environment->host.kernel, "5.15.0-91-generic");
  EXPECT_EQ(snapshot.environment->host.machine, "x86_64");
  const auto& python = snapshot.environment->pythons.at(0);
  EXPECT_EQ(python.cuda_available, true);
  EXPECT_EQ(facts::find_package(python, "accelerate")->version, "0.34.2");
}

TEST(LibraryEnv, JaxCountsItsDevices) {
  const auto snapshot = snapshot_of(
      "jax:    0.4.35\njaxlib: 0.4.34\nnumpy:  1.26.4\npython: 3.12.3 (main, Sep 11 2024) [GCC 13.2.0]\n"
      "device info: NVIDIA A100-SXM4-40GB-8, 4 local devices\nprocess_count: 2\n");
  ASSERT_EQ(snapshot.gpus.size(), 4U);
  EXPECT_EQ(snapshot.gpus[3].gpu.name, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(facts::find_package(snapshot.environment->pythons.at(0), "jaxlib")->version, "0.4.34");
  const auto processor = snapshot_of("jaxlib: 0.4.34\ndevice info: cpu-1, 1 local devices\nprocess_count: 1\n");
  EXPECT_THAT(processor.gpus, IsEmpty());
}

TEST(EnvReports, TheBuildOfWindowsIsNoMachine) {
  const auto snapshot = snapshot_of(
      "Collecting environment information...\nPyTorch version: 2.5.1+cu124\n"
      "CUDA used to build PyTorch: 12.4\n\nOS: Microsoft Windows 11 Pro (10.0.22631 64-bit)\n");
  ASSERT_TRUE(snapshot.environment);
  EXPECT_EQ(snapshot.environment->host.distribution, "windows");
  EXPECT_EQ(snapshot.environment->host.distribution_name, "Microsoft Windows 11 Pro");
  EXPECT_FALSE(snapshot.environment->host.machine);
}

// source of the form: hiyouga/LLaMA-Factory, src/llamafactory/extras/env.py
TEST(EnvReports, LlamaFactorysNamesHowManyGpusThereAreAndTheirMemory) {
  const auto snapshot = snapshot_of(
      "- `llamafactory` version: 0.9.3\n- Platform: Linux-6.8.0-59-generic-x86_64-with-glibc2.35\n"
      "- Python version: 3.11.4\n- PyTorch version: 2.7.1+cu126 (GPU)\n- Transformers version: 4.52.4\n"
      "- PEFT version: 0.15.2\n- TRL version: 0.9.6\n- GPU type: NVIDIA H20\n- GPU number: 3\n"
      "- GPU memory: 95.08GB\n- DeepSpeed version: 0.16.9\n- vLLM version: 0.9.1\n");
  ASSERT_EQ(snapshot.gpus.size(), 3U);
  for (const auto& record : snapshot.gpus) {
    EXPECT_EQ(record.gpu.name, "NVIDIA H20");
    ASSERT_TRUE(record.sample.memory_total);
    EXPECT_NEAR(static_cast<double>(record.sample.memory_total->value) / 1073741824, 95.08, 0.001);
  }
  const auto& python = snapshot.environment->pythons.at(0);
  EXPECT_EQ(python.cuda_available, true);
  EXPECT_EQ(python.version, "3.11.4");
  for (const auto& [name, version] : {std::pair{"torch", "2.7.1+cu126"},
                                      {"llamafactory", "0.9.3"},
                                      {"trl", "0.9.6"},
                                      {"deepspeed", "0.16.9"},
                                      {"vllm", "0.9.1"}}) {
    const auto* package = facts::find_package(python, name);
    ASSERT_NE(package, nullptr) << name;
    EXPECT_EQ(package->version, version);
  }
}

// source of the form: huggingface/trl, trl/scripts/env.py
TEST(EnvReports, TrlsListsEachGpu) {
  const auto snapshot = snapshot_of(
      "- Platform: Linux-5.15.0-1048-aws-x86_64-with-glibc2.31\n- Python version: 3.12.2\n- TRL version: 0.16.0\n"
      "- PyTorch version: 2.6.0\n- CUDA device(s): NVIDIA H100 80GB HBM3, NVIDIA H100 80GB HBM3\n"
      "- Transformers version: 4.47.0\n- vLLM version: not installed\n");
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[1].gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(snapshot.gpus[1].gpu.index.value, 1U);
  const auto& python = snapshot.environment->pythons.at(0);
  EXPECT_EQ(facts::find_package(python, "torch")->version, "2.6.0");
  EXPECT_EQ(facts::find_package(python, "vllm"), nullptr);
  EXPECT_EQ(python.cuda_available, std::nullopt);
}

TEST(EnvReport, WhatIsNamedInPlaceOfAGpuIsNone) {
  for (const char* row :
       {"CUDA device(s): not available", "accelerator(s): cpu", "accelerator(s): MPS", "PyTorch accelerator(s): cpu"}) {
    const auto told = snapshot_of(std::string("- Platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.35\n"
                                              "- Python version: 3.11.9\n- TRL version: 0.16.0\n"
                                              "- PyTorch version: 2.6.0\n- ") +
                                  row + "\n- Transformers version: 4.50.0\n");
    EXPECT_THAT(told.gpus, IsEmpty()) << row;
  }
}

TEST(EnvReports, ACutLosesValuesAndChangesNone) {
  const std::string text(kCollectEnv);
  const auto whole = snapshot_of(text);
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto part = read_capture(text.substr(0, length), "cut");
    if (!part || !part->snapshot.environment) continue;
    EXPECT_EQ(changed_facts(*whole.environment, *part->snapshot.environment), "") << length;
    for (const auto& record : part->snapshot.gpus) EXPECT_EQ(record.gpu.name, "NVIDIA A100-SXM4-80GB") << length;
  }
}

TEST(TorchMessages, SayWhatIsWrongWithItsNumbers) {
  const auto snapshot = snapshot_of(
      "UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
      "installation.\nThe current PyTorch install supports CUDA capabilities sm_50 sm_80 sm_90.\n"
      "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n"
      "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver\n"
      "ImportError: /lib/libc.so.6: version `GLIBC_2.32' not found (required by x.so)\n"
      "OSError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
      "nvcc fatal   : Unsupported gpu architecture 'compute_89'\n"
      "    PyTorch 2.6.0+cu124 with CUDA 1204 (you have 2.8.0.dev20250331+cu128)\n");
  std::vector<std::pair<std::string, std::string>> told;
  for (const auto& message : snapshot.environment->messages) told.emplace_back(message.kind, message.value);
  EXPECT_THAT(told, ElementsAre(std::pair("arch_not_supported", "sm_120"), std::pair("driver_too_old", "11040"),
                                std::pair("cuda_error", "803"), std::pair("glibc_missing", "2.32"),
                                std::pair("library_missing", "libcudart.so.12"), std::pair("nvcc_arch_unknown", "89"),
                                std::pair("xformers_other_build", "2.8.0.dev20250331+cu128")));
  EXPECT_THAT(snapshot.environment->pythons.at(0).torch_architectures, ElementsAre("sm_50", "sm_80", "sm_90"));
}

TEST(TorchMessages, WordsOfCudaAreNumbersAndACutNumberIsNone) {
  const auto snapshot = snapshot_of(
      "ggml_cuda_init: failed to initialize CUDA: forward compatibility was attempted on non supported HW\n"
      "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version\n"
      "RuntimeError: No CUDA GPUs are available\n"
      "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by ./server)\n"
      "The NVIDIA driver on your system is too old (found version 110");
  std::vector<std::pair<std::string, std::string>> told;
  for (const auto& message : snapshot.environment->messages) told.emplace_back(message.kind, message.value);
  EXPECT_THAT(told, ElementsAre(std::pair("cuda_error", "804"), std::pair("cuda_error", "35"),
                                std::pair("cuda_error", "100"), std::pair("glibcxx_missing", "3.4.30")));
}

TEST(ToolkitOutput, NvccKernelModuleAndLibraryCache) {
  const auto snapshot = snapshot_of(
      "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.8, V12.8.61\n"
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n"
      "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
      "\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda/compat/libcuda.so.1\n");
  const auto& environment = *snapshot.environment;
  EXPECT_EQ(environment.toolkits.at(0).version, "12.8.61");
  EXPECT_EQ(environment.driver.loaded_version, "575.57.08");
  EXPECT_EQ(environment.driver.flavour, facts::ModuleFlavour::open);
  EXPECT_EQ(environment.libraries.at(0).origin, "compat");
  EXPECT_FALSE(read_capture("Cuda compilation tools, release 12.", "cut")) << "a cut number is no number";
}

TEST(Mixed, AReportATableAndATracebackAreOneMachine) {
  const std::string text = std::string("I get an error on my machine:\n\n") + std::string(kCollectEnv) +
                           "\n| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4     |\n"
                           "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:00:03.0 Off |                    0 |\n"
                           "| N/A   45C    P0              28W / 400W |   1200MiB / 81920MiB |     12%      Default |\n"
                           "\nCUDA error: no kernel image is available for execution on the device\n";
  const auto snapshot = snapshot_of(text);
  EXPECT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.cuda_driver_version, "12.4");
  EXPECT_EQ(snapshot.environment->messages.at(0).kind, "no_kernel_image");
}

}  // namespace
}  // namespace gpuwarden::capture
