// SPDX-License-Identifier: Apache-2.0
// What programs print of the machine, in lines of our own in the shapes that they print.
#include "capture/program_report.hpp"

#include <re2/re2.h>

#include <array>

#include "capture/program_lines.hpp"
#include "capture/reading.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Empty and 0: not told.
struct Told {
  std::string_view gpus = "";  ///< names, by semicolons
  std::string_view driver = "";
  std::string_view cuda_driver = "";
  std::string_view torch = "";
  std::string_view package = "";  ///< "name version"
  std::uint64_t memory_mib = 0;   ///< of the first GPU
  std::string_view capability = "";
};

struct Sample {
  std::string_view program;
  std::string_view text;
  Told told;
};

constexpr auto kSamples = std::to_array<Sample>({
    {"ultralytics",
     "Ultralytics 8.3.107 🚀 Python-3.11.4 torch-2.6.0+cu126 CUDA:0 (NVIDIA A100-SXM4-40GB, 40441MiB)\n"
     "                                                        CUDA:1 (NVIDIA A100-SXM4-40GB, 40441MiB)\n",
     {.gpus = "NVIDIA A100-SXM4-40GB;NVIDIA A100-SXM4-40GB", .torch = "2.6.0+cu126", .memory_mib = 40441}},
    {"ultralytics",
     "OS                  Linux-6.8.0-51-generic-x86_64-with-glibc2.39\nPython              3.12.3\n"
     "GPU                 NVIDIA GeForce RTX 4070, 11994MiB\nGPU count           1\nCUDA                12.4\n\n"
     "numpy               ✅ 1.26.4<=2.1.1,>=1.23.0\ntorch               ✅ 2.5.1+cu124>=1.8.0\n",
     {.gpus = "NVIDIA GeForce RTX 4070", .torch = "2.5.1+cu124", .package = "numpy 1.26.4", .memory_mib = 11994}},
    {"ComfyUI",
     "Total VRAM 24564 MB, total RAM 64301 MB\npytorch version: 2.7.1+cu128\nSet vram state to: NORMAL_VRAM\n"
     "Device: cuda:0 NVIDIA GeForce RTX 4090 : cudaMallocAsync\nPython version: 3.12.9 (main, Feb  4 2025)\n",
     {.gpus = "NVIDIA GeForce RTX 4090", .torch = "2.7.1+cu128", .memory_mib = 24564}},
    {"ComfyUI",
     "2026-01-21T16:32:28.1 - pytorch version: 2.9.1+cu128\n"
     "2026-01-21T16:32:29.1 - Device: cuda:0 NVIDIA GeForce RTX 3060 : cudaMallocAsync\n"
     "[2026-01-21 16:32:30.000] Python version: 3.12.11 (main)\n",
     {.gpus = "NVIDIA GeForce RTX 3060", .torch = "2.9.1+cu128"}},
    {"ComfyUI",
     "## System Information\n- **OS:** nt\n- **Python Version:** 3.12.9 (tags/v3.12.9)\n"
     "- **PyTorch Version:** 2.6.0+cu126\n## Devices\n\n- **Name:** cuda:0 NVIDIA GeForce RTX 3060 : native\n"
     "  - **Type:** cuda\n  - **VRAM Total:** 12884377600\n",
     {.gpus = "NVIDIA GeForce RTX 3060", .torch = "2.6.0+cu126", .memory_mib = 12287}},
    {"Unsloth",
     "==((====))==  Unsloth 2025.3.19: Fast Llama patching. Transformers: 4.50.0.\n"
     "   \\\\   /|    NVIDIA L40S. Num GPUs = 2. Max memory: 44.53 GB. Platform: Linux.\n"
     "O^O/ \\_/ \\    Torch: 2.6.0+cu124. CUDA: 8.9. CUDA Toolkit: 12.4. Triton: 3.2.0\n",
     {.gpus = "NVIDIA L40S;NVIDIA L40S",
      .torch = "2.6.0+cu124",
      .package = "triton 3.2.0",
      .memory_mib = 45598,
      .capability = "8.9"}},
    {"PyTorch",
     "UserWarning: NVIDIA GeForce RTX 5060 Ti with CUDA capability sm_120 is not compatible with the current PyTorch\n",
     {.gpus = "NVIDIA GeForce RTX 5060 Ti", .capability = "12.0"}},
    {"PyTorch",
     "    Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.\n",
     {.gpus = "NVIDIA GeForce GTX 1080 Ti", .capability = "6.1"}},
    {"TensorFlow",
     "2025-03-01 10:00:00.1: I tensorflow/core/common_runtime/gpu/gpu_device.cc:2022] Created device "
     "/job:localhost/replica:0/task:0/device:GPU:0 with 21770 MB memory:  -> device: 0, name: NVIDIA A10G, pci bus id: "
     "0000:00:1e.0, compute capability: 8.6\n",
     {.gpus = "NVIDIA A10G", .capability = "8.6"}},
    {"TensorFlow",
     "Created TensorFlow device (/device:GPU:0 with 7400 MB memory) -> physical GPU (device: 0, name: Tesla T4, pci "
     "bus "
     "id: 0000:00:04.0, compute capability: 7.5)\n",
     {.gpus = "Tesla T4", .capability = "7.5"}},
    {"ggml",
     "ggml_cuda_init: found 2 CUDA devices:\n  Device 0: NVIDIA GeForce RTX 5090, compute capability 12.0, VMM: yes\n"
     "  Device 1: Tesla P40, compute capability 6.1, VMM: yes, VRAM: 24438 MiB\n"
     "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 5090) - 31500 MiB free\n",
     {.gpus = "NVIDIA GeForce RTX 5090;Tesla P40", .capability = "12.0"}},
    {"ggml",
     "  Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32\n",
     {.gpus = "AMD Radeon RX 7900 XTX (gfx1100)"}},
    {"ggml",
     "ggml_vulkan: 0 = NVIDIA GeForce RTX 3060 (NVIDIA) | uma: 0 | fp16: 1 | warp size: 32\n",
     {.gpus = "NVIDIA GeForce RTX 3060"}},
    {"ggml",
     "  Device 0: NVIDIA GeForce RTX 5090, compute capability 12.0, VMM: yes\n"
     "load_backend: loaded CUDA backend from D:\\llama\\ggml-cuda.dll\n"
     "build: 6527 (7f766929) with clang version 19.1.5 for x86_64-pc-windows-msvc\n",
     {.gpus = "NVIDIA GeForce RTX 5090", .capability = "12.0"}},
    {"ollama",
     "msg=\"inference compute\" id=0 library=ROCm compute=gfx1151 name=ROCm0 description=\"AMD Radeon Graphics\" "
     "driver=60443.48 type=iGPU total=\"96.0 GiB\" available=\"95.8 GiB\"\n",
     {.gpus = "AMD Radeon Graphics (gfx1151)", .memory_mib = 98304}},
    {"ollama",
     "time=2025-05-11T10:22:11Z level=INFO source=types.go:130 msg=\"inference compute\" "
     "id=GPU-2f1c6d3e-0000-1111-2222-333344445555 library=cuda variant=v12 compute=8.9 driver=12.6 name=\"NVIDIA L4\" "
     "total=\"22.0 GiB\" available=\"21.7 GiB\"\n",
     {.gpus = "NVIDIA L4", .cuda_driver = "12.6", .memory_mib = 22528, .capability = "8.9"}},
    {"ollama",
     "msg=\"inference compute\" id=GPU-2f1c6d3e-0000-1111-2222-333344445555 filter_id=\"\" library=CUDA compute=8.6 "
     "name=CUDA0 description=\"NVIDIA GeForce RTX 3060\" libdirs=ollama,cuda_v13 driver=13.0 pci_id=0000:01:00.0 "
     "type=discrete total=\"12.0 GiB\" available=\"11.6 GiB\"\n",
     {.gpus = "NVIDIA GeForce RTX 3060", .cuda_driver = "13.0", .memory_mib = 12288, .capability = "8.6"}},
    {"deviceQuery",
     "Detected 2 CUDA Capable device(s)\n\nDevice 0: \"NVIDIA GeForce RTX 4090\"\n"
     "  CUDA Driver Version / Runtime Version          12.4 / 12.6\n"
     "  CUDA Capability Major/Minor version number:    8.9\n"
     "  Total amount of global memory:                 24217 MBytes (25393692672 bytes)\n"
     "Device 1: \"NVIDIA GeForce GTX 1080\"\n  CUDA Capability Major/Minor version number:    6.1\n",
     {.gpus = "NVIDIA GeForce RTX 4090;NVIDIA GeForce GTX 1080",
      .cuda_driver = "12.4",
      .memory_mib = 24217,
      .capability = "8.9"}},
    {"CUDA.jl",
     "CUDA runtime 12.6, artifact installation\nCUDA driver 12.8\nNVIDIA driver 570.86.16\n\n1 device:\n"
     "  0: NVIDIA RTX A6000 (sm_86, 47.413 GiB / 47.988 GiB available)\n",
     {.gpus = "NVIDIA RTX A6000", .driver = "570.86.16", .cuda_driver = "12.8", .capability = "8.6"}},
    {"CUDA.jl",
     "CUDA toolchain: \n- runtime 13.0, artifact installation\n- driver 580.82.9 for 13.0\n- compiler 13.0\n\n1 "
     "device:\n"
     "  0: NVIDIA GeForce RTX 5080\n",
     {.gpus = "NVIDIA GeForce RTX 5080", .driver = "580.82.9", .cuda_driver = "13.0"}},
    {"Numba",
     "Python Version                                : 3.11.5\n__CUDA Information__\n"
     "CUDA Driver Version                           : 12.2\nFound 1 CUDA devices\n"
     "id 0    b'NVIDIA GeForce RTX 3090'                              [SUPPORTED]\n"
     "                      Compute Capability: 8.6\n",
     {.gpus = "NVIDIA GeForce RTX 3090", .cuda_driver = "12.2", .capability = "8.6"}},
    {"CuPy",
     "OS                           : Linux-5.15.0-105-generic-x86_64-with-glibc2.35\n"
     "Python Version               : 3.10.12\nCuPy Version                 : 13.3.0\n"
     "CUDA Driver Version          : 12040\nDevice 0 Name                : NVIDIA H100 PCIe\n"
     "Device 0 Compute Capability  : 90\n",
     {.gpus = "NVIDIA H100 PCIe", .cuda_driver = "12.4", .package = "cupy 13.3.0", .capability = "9.0"}},
    {"Lightning",
     "* CUDA:\n\t- GPU:\n\t\t- NVIDIA A100-SXM4-80GB\n\t- available:         True\n\t- version:           12.1\n"
     "* Lightning:\n\t- lightning:         2.1.0\n\t- torch:             2.1.0+cu121\n* System:\n"
     "\t- python:            3.10.12\n",
     {.gpus = "NVIDIA A100-SXM4-80GB", .torch = "2.1.0+cu121", .package = "lightning 2.1.0"}},
    {"xFormers",
     "xFormers 0.0.28.post1\npytorch.version:                                   2.4.1+cu121\n"
     "gpu.compute_capability:                            8.9\n"
     "gpu.name:                                          NVIDIA RTX 6000 Ada Generation\n",
     {.gpus = "NVIDIA RTX 6000 Ada Generation",
      .torch = "2.4.1+cu121",
      .package = "xformers 0.0.28.post1",
      .capability = "8.9"}},
    {"OpenMMLab",
     "Python: 3.8.10 (default)\nCUDA available: True\nGPU 0,1: NVIDIA GeForce RTX 3090\nPyTorch: 1.10.0+cu113\n"
     "TorchVision: 0.11.0+cu113\nMMCV: 1.4.0\nMMEngine: 0.10.3\n",
     {.gpus = "NVIDIA GeForce RTX 3090;NVIDIA GeForce RTX 3090", .torch = "1.10.0+cu113", .package = "mmcv 1.4.0"}},
    {"detectron2",
     "detectron2              0.6 @/usr/lib/python3/site-packages/detectron2\n"
     "PyTorch                 1.10.0+cu113 @/usr/lib/python3/site-packages/torch\n"
     "GPU available           Yes\nGPU 0                   NVIDIA GeForce RTX 3090 (arch=8.6)\n"
     "Driver version          535.129.03\n",
     {.gpus = "NVIDIA GeForce RTX 3090", .driver = "535.129.03", .torch = "1.10.0+cu113", .capability = "8.6"}},
    {"FlashInfer",
     "flashinfer                   : 0.6.16\nPython            : 3.12.3 (main) [GCC 13.3.0]\n"
     "Platform          : Linux-6.8.0-51-generic-x86_64-with-glibc2.39\nOS                : Ubuntu 24.04.4 LTS\n"
     "torch             : 2.11.0+cu130\nDriver version       : 580.126.09\n"
     "GPU 0 (CUDA order)   : NVIDIA GB200 | SM100 | 152 SMs | 184.3 GiB\n",
     {.gpus = "NVIDIA GB200",
      .driver = "580.126.09",
      .torch = "2.11.0+cu130",
      .package = "flashinfer-python 0.6.16",
      .capability = "10.0"}},
    {"trtexec",
     "[I] === Device Information ===\n[I] Selected Device: NVIDIA A30\n[I] Compute Capability: 8.0\n"
     "[I] Device Global Memory: 24060 MiB\n[I] TensorRT version: 10.3.0\n",
     {.gpus = "NVIDIA A30", .package = "tensorrt 10.3.0", .memory_mib = 24060, .capability = "8.0"}},
    {"GROMACS",
     "    #0: NVIDIA NVIDIA GeForce RTX 3080, compute cap.: 8.6, ECC: no, stat: compatible\n"
     "CUDA driver:        12.20\n",
     {.gpus = "NVIDIA GeForce RTX 3080", .cuda_driver = "12.2", .capability = "8.6"}},
    {"NAMD",
     "Pe 0 physical rank 0 binding to CUDA device 0 on node1: 'NVIDIA A40'  Mem: 45634MB  Rev: 8.6  PCI: 0:1:0\n",
     {.gpus = "NVIDIA A40", .memory_mib = 45634, .capability = "8.6"}},
    {"hashcat",
     "CUDA API (CUDA 12.4)\n* Device #1: NVIDIA GeForce RTX 2080, 7622/7982 MB, 46MCU\n",
     {.gpus = "NVIDIA GeForce RTX 2080", .cuda_driver = "12.4", .memory_mib = 7982}},
    {"PaddlePaddle",
     "W0101 10:00:00.1 1 gpu_resources.cc:119] Please NOTE: device: 0, GPU Compute Capability: 8.6, Driver API "
     "Version: "
     "12.2, Runtime API Version: 11.7\n",
     {.cuda_driver = "12.2"}},
    {"clinfo",
     "  Platform Name                                   NVIDIA CUDA\n"
     "  Device Name                                     NVIDIA GeForce GTX 1650\n"
     "  Driver Version                                  535.129.03\n",
     {.gpus = "NVIDIA GeForce GTX 1650", .driver = "535.129.03"}},
    {"vulkaninfo",
     "\tdeviceName         = NVIDIA GeForce RTX 3090\n\tdriverInfo         = 550.120\n"
     "\tdeviceName         = llvmpipe (LLVM 15.0.7, 256 bits)\n",
     {.gpus = "NVIDIA GeForce RTX 3090", .driver = "550.120"}},
    {"glxinfo",
     "OpenGL renderer string: NVIDIA GeForce RTX 3060/PCIe/SSE2\n"
     "OpenGL core profile version string: 4.6.0 NVIDIA 535.171.04\n",
     {.gpus = "NVIDIA GeForce RTX 3060", .driver = "535.171.04"}},
    {"inxi",
     "  Device-1: NVIDIA GA102 [GeForce RTX 3090] vendor: ASUSTeK driver: nvidia\n"
     "    v: 550.120 arch: Ampere bus-ID: 01:00.0\n",
     {.gpus = "GeForce RTX 3090", .driver = "550.120"}},
    {"inxi",
     "  Device-1: NVIDIA AD104 [GeForce RTX 4070] driver: nvidia v: 560.35.03\n",
     {.gpus = "GeForce RTX 4070", .driver = "560.35.03"}},
    {"inxi",
     "  Device-1: NVIDIA GB203 [GeForce RTX 5070 Ti] vendor: Gigabyte\n    driver: nouveau v: kernel\n",
     {.gpus = "GeForce RTX 5070 Ti"}},
    {"Blender",
     "Operating system: Linux-6.5.0-35-generic-x86_64-with-glibc2.35 64 Bits, X11 UI\n"
     "Graphics card: NVIDIA GeForce RTX 3060/PCIe/SSE2 NVIDIA Corporation 4.6.0 NVIDIA 535.171.04\n",
     {.gpus = "NVIDIA GeForce RTX 3060", .driver = "535.171.04"}},
    {"fastfetch", "Packages: 2345 (dpkg)\nGPU: NVIDIA GeForce RTX 3080\n", {.gpus = "NVIDIA GeForce RTX 3080"}},
    {"fastfetch",
     "Kernel: Linux 6.11.0-21-generic\nGPU: NVIDIA GeForce RTX 4070 [Discrete]\n",
     {.gpus = "NVIDIA GeForce RTX 4070"}},
    {"nvitop",
     "│ NVITOP 1.5.0      Driver Version: 550.120        CUDA Driver Version: 12.4 │\n"
     "│   0  GeForce RTX 3090    Off  │ 00000000:01:00.0 Off │                  N/A │\n",
     {.gpus = "GeForce RTX 3090", .driver = "550.120", .cuda_driver = "12.4"}},
});

std::string names_of(const facts::Snapshot& snapshot) {
  std::vector<std::string> names;
  for (const auto& record : snapshot.gpus) names.push_back(record.gpu.name);
  return join(names, ";");
}

TEST(ProgramReport, WhatEachProgramTellsIsRead) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.text);
    const Told& told = sample.told;
    const auto snapshot = snapshot_of(sample.text);
    EXPECT_THAT(snapshot.origin, HasSubstr("what a program reports"));
    EXPECT_EQ(names_of(snapshot), told.gpus);
    EXPECT_EQ(snapshot.driver_version.value_or(""), told.driver);
    EXPECT_EQ(snapshot.cuda_driver_version.value_or(""), told.cuda_driver);
    ASSERT_TRUE(snapshot.environment);
    ASSERT_EQ(snapshot.environment->pythons.size(), 1U);
    const auto version_of = [&](std::string_view name) {
      const auto* const package = facts::find_package(snapshot.environment->pythons[0], name);
      return package == nullptr ? "" : package->version;
    };
    EXPECT_EQ(version_of("torch"), told.torch);
    if (!told.package.empty()) {
      EXPECT_EQ(version_of(split(told.package, ' ')[0]), split(told.package, ' ')[1]) << told.package;
    }
    if (told.memory_mib > 0) {
      ASSERT_TRUE(snapshot.gpus.at(0).sample.memory_total);
      EXPECT_EQ(snapshot.gpus[0].sample.memory_total->value >> 20U, told.memory_mib);
    }
    if (!told.capability.empty()) {
      EXPECT_EQ(snapshot.gpus.at(0).gpu.compute_capability, facts::compute_capability_from(told.capability));
    }
  }
}

TEST(ProgramReport, EachLineOfTheTableReadsASample) {
  constexpr int kMostGroups = 7;  // the reader has room for them and the whole match
  for (const ProgramLine& line : program_lines()) {
    const RE2 pattern(line.pattern);
    ASSERT_TRUE(pattern.ok()) << line.pattern << pattern.error();
    EXPECT_LE(pattern.NumberOfCapturingGroups(), kMostGroups) << line.pattern;
    bool reads = false;
    for (const Sample& sample : kSamples) {
      if (sample.program != line.program) continue;
      for (const auto text : split(sample.text, '\n'))
        reads = reads || (text.contains(line.literal) && RE2::PartialMatch(std::string(text), pattern));
    }
    EXPECT_TRUE(reads) << line.program << ": " << line.pattern;
  }
}

TEST(ProgramReport, WhatTheDriversOwnToolsTellStays) {
  const auto snapshot = snapshot_of(
      "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-1111-2222-3333-444444444444)\n"
      "Driver Version : 570.86.15\nggml_cuda_init: found 2 CUDA devices:\n"
      "  Device 0: NVIDIA H100 80GB HBM3, compute capability 9.0, VMM: yes\n"
      "  Device 1: NVIDIA H100 80GB HBM3, compute capability 9.0, VMM: yes\n");
  EXPECT_EQ(names_of(snapshot), "NVIDIA H100 80GB HBM3");
}

TEST(ProgramReport, EqualGpusAreSeveralAndEachHasItsOwn) {
  const auto ollama = snapshot_of(
      "msg=\"inference compute\" id=GPU-00000000-0000-0000-0000-000000000001 library=cuda compute=8.6 driver=12.4 "
      "name=\"NVIDIA GeForce RTX 3090\" total=\"23.7 GiB\" available=\"23.3 GiB\"\n"
      "msg=\"inference compute\" id=GPU-00000000-0000-0000-0000-000000000002 library=cuda compute=8.6 driver=12.4 "
      "name=\"NVIDIA GeForce RTX 3090\" total=\"23.7 GiB\" available=\"23.3 GiB\"\n");
  EXPECT_EQ(names_of(ollama), "NVIDIA GeForce RTX 3090;NVIDIA GeForce RTX 3090");
  EXPECT_EQ(names_of(snapshot_of("* CUDA:\n\t- GPU:\n\t\t- NVIDIA A100-SXM4-80GB\n\t\t- NVIDIA A100-SXM4-80GB\n"
                                 "\t- lightning:         2.1.0\n")),
            "NVIDIA A100-SXM4-80GB;NVIDIA A100-SXM4-80GB");
}

TEST(ProgramReport, WhatOneProgramTellsOfAGpuIsNotGivenToAnothers) {
  const auto two = snapshot_of(
      "  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes\n"
      "  Device 1: NVIDIA GeForce RTX 3060, compute capability 8.6, VMM: yes\n"
      "Total VRAM 12288 MB, total RAM 64301 MB\n"
      "Device: cuda:0 NVIDIA GeForce RTX 3060 : cudaMallocAsync\n");
  EXPECT_EQ(names_of(two), "NVIDIA GeForce RTX 3090;NVIDIA GeForce RTX 3060");
  EXPECT_FALSE(two.gpus[0].sample.memory_total) << "CUDA_VISIBLE_DEVICES may have numbered them anew";
  const auto libraries = snapshot_of(
      "  Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no\n"
      "  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes\n");
  EXPECT_EQ(names_of(libraries), "AMD Radeon RX 7900 XTX (gfx1100)");
  EXPECT_FALSE(libraries.gpus[0].gpu.compute_capability);
}

TEST(ProgramReport, OnlyAGpuThatPyTorchCallsTooOldIsNotServed) {
  const auto told = [](const char* behind) {
    return snapshot_of("    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n" + std::string(behind));
  };
  EXPECT_THAT(
      told("    Minimum and Maximum cuda capability supported by this version of PyTorch is\n    (8.0) - (12.0)\n")
          .environment->messages,
      IsEmpty());
  const auto old = told("    PyTorch no longer supports this GPU because it is too old.\n");
  ASSERT_EQ(old.environment->messages.size(), 1U);
  EXPECT_EQ(old.environment->messages[0].kind, "arch_not_supported");
}

TEST(ProgramReport, SentencesAboutGpusAreNoGpus) {
  for (const char* text :
       {"Minimum requirements\nGPU: NVIDIA GeForce GTX 970\n", "GPU: NVIDIA driver not found\n",
        "[INFO] Selected Device: /dev/video0\n", "Selected Device: cpu\n", "Device 0: \"HDA Intel PCH\"\n",
        "Packages: 12 (dpkg)\nERROR GPU: NVIDIA device is lost, please reboot\n",
        "MMCV: 1.4.0\nGPU 0: still warm, all right\n"}) {
    const auto capture = read_capture(text, "test");
    EXPECT_THAT(capture ? capture->snapshot.gpus : std::vector<facts::GpuRecord>{}, IsEmpty()) << text;
  }
}

TEST(ProgramReport, OrdinaryLinesBesideASureOneAreTheProgramsOnly) {
  // "Python version:" is many programs'; without ComfyUI's own lines nothing tells whose.
  EXPECT_FALSE(read_capture("Python version: 3.12.9\nOS: nt\nsome words about a GPU\n", "test"));
  EXPECT_FALSE(read_capture("my device: cuda:0 is fast, pytorch version: unknown\n", "test"));
}

TEST(ProgramReport, ALineThatWasCutTellsNothing) {
  EXPECT_FALSE(read_capture("  Device 0: NVIDIA H100 80GB HBM3, compute capability 9.0", "test"));
}

// ---------- Python's answers

TEST(PythonAnswers, AtThePromptEachQuestionHasTheLineBelow) {
  const auto snapshot = snapshot_of(
      ">>> import torch\n>>> torch.__version__\n'2.6.0+cu124'\n>>> torch.version.cuda\n'12.4'\n"
      ">>> torch.cuda.is_available()\nTrue\n>>> torch.cuda.get_device_name(0)\n'NVIDIA GeForce RTX 5090'\n"
      ">>> torch.cuda.get_arch_list()\n['sm_80', 'sm_90', 'compute_90']\n");
  EXPECT_EQ(names_of(snapshot), "NVIDIA GeForce RTX 5090");
  const auto& python = snapshot.environment->pythons.at(0);
  EXPECT_EQ(facts::find_package(python, "torch")->version, "2.6.0+cu124");
  EXPECT_EQ(python.torch_cuda, "12.4");
  EXPECT_EQ(python.cuda_available, true);
  EXPECT_THAT(python.torch_architectures, ElementsAre("sm_80", "sm_90", "compute_90"));
  EXPECT_THAT(snapshot.environment->messages, IsEmpty());
}

TEST(PythonAnswers, OfOneCommandStandInOneLineOrInSeveral) {
  const auto one = snapshot_of(
      "$ python3 -c \"import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())\"\n"
      "2.5.1+cpu None False\n");
  EXPECT_EQ(one.environment->pythons.at(0).torch_cuda, "");
  ASSERT_EQ(one.environment->messages.size(), 1U);
  EXPECT_EQ(one.environment->messages[0].kind, "cuda_not_available");
  const auto several =
      snapshot_of("In [2]: print(torch.cuda.is_available())\nFalse\nIn [3]: torch.__version__\n'2.5.1+cu124'\n");
  EXPECT_EQ(several.environment->pythons.at(0).cuda_available, false);
  EXPECT_EQ(facts::find_package(several.environment->pythons[0], "torch")->version, "2.5.1+cu124");
}

TEST(PythonAnswers, OfTensorFlowAndJaxAreHeardToo) {
  const auto tensorflow = snapshot_of(">>> tf.__version__\n'2.16.1'\n>>> tf.config.list_physical_devices('GPU')\n[]\n");
  ASSERT_EQ(tensorflow.environment->messages.size(), 1U);
  EXPECT_EQ(tensorflow.environment->messages[0].kind, "tensorflow_sees_no_gpu");
  EXPECT_EQ(facts::find_package(tensorflow.environment->pythons.at(0), "tensorflow")->version, "2.16.1");
  const auto jax = snapshot_of("$ python -c 'import torch; print(1)'\n1\n>>> jax.devices()\n[CpuDevice(id=0)]\n");
  ASSERT_EQ(jax.environment->messages.size(), 1U);
  EXPECT_EQ(jax.environment->messages[0].kind, "jax_sees_no_gpu");
  EXPECT_THAT(snapshot_of(">>> jax.devices()\n[CudaDevice(id=0)]\n").environment->messages, IsEmpty());
  const auto capability = snapshot_of(
      ">>> torch.cuda.get_device_name()\n'NVIDIA GeForce GTX 1080 Ti'\n>>> torch.cuda.get_device_capability()\n(6, "
      "1)\n");
  EXPECT_EQ(capability.gpus.at(0).gpu.compute_capability, facts::compute_capability_from("6.1"));
  const auto told = snapshot_of("torch.cuda.is_available(): False\n");
  EXPECT_EQ(told.environment->messages.size(), 1U);
}

TEST(PythonAnswers, TheLastOneCounts) {
  const auto mended = snapshot_of(
      ">>> torch.cuda.is_available()\nFalse\nthen I installed another build:\nIn [1]: torch.cuda.is_available()\n"
      "Out[1]: True\n");
  EXPECT_EQ(mended.environment->pythons.at(0).cuda_available, true);
  EXPECT_THAT(mended.environment->messages, IsEmpty());
  const auto lost = snapshot_of(">>> torch.cuda.is_available()\nTrue\n>>> torch.cuda.is_available()\nFalse\n");
  EXPECT_EQ(lost.environment->messages.size(), 1U);
  const auto reported =
      snapshot_of(">>> torch.cuda.is_available()\nFalse\nPyTorch version: 2.6.0+cu124\nIs CUDA available: True\n");
  EXPECT_THAT(reported.environment->messages, IsEmpty());
  const auto hidden =
      snapshot_of("$ CUDA_VISIBLE_DEVICES=\"\" python -c \"import torch; print(torch.cuda.is_available())\"\nFalse\n");
  EXPECT_THAT(hidden.environment->messages, IsEmpty());
}

TEST(PythonAnswers, WhatIsNoAnswerIsLeftAlone) {
  EXPECT_FALSE(read_capture("print(torch.cuda.get_device_name(0))\nprint(torch.cuda.is_available())\n", "test"));
  EXPECT_FALSE(read_capture("torch.cuda.get_device_name() gives\nsome prose about it\n", "test"));

  EXPECT_FALSE(read_capture("torch.cuda.is_available() should say True\nand it does not\n", "test"));
  EXPECT_FALSE(read_capture(">>> torch.cuda.is_available()\nTraceback (most recent call last):\n", "test"));
  EXPECT_FALSE(read_capture("device = 'cuda' if torch.cuda.is_available() else 'cpu'\nFalse\n", "test"));
}

}  // namespace
}  // namespace gpuwarden::capture
