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
    {"SGLang",
     "[2026-02-21 10:48:06] server_args=ServerArgs(model_path='Qwen/Qwen3-30B-A3B', tp_size=2)\n"
     "[2026-02-21 10:48:10 TP1] Load weight begin. avail mem=137.29 GB\n"
     "[2026-02-21 10:48:10 TP0] Load weight begin. avail mem=137.34 GB\n"
     "[2026-02-21 10:48:12 TP0] Load weight end. type=Qwen3MoeForCausalLM, avail mem=108.5 GB, mem usage=28.6 GB.\n"
     "[2026-02-21 10:48:13 TP0] KV Cache is allocated. #tokens: 834615, K size: 54.12 GB, V size: 54.12 GB\n"
     "[2026-02-21 10:48:14 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=13.95 GB\n"
     "[2026-02-21 10:48:17 TP0] Config file not found at /sgl/python/sglang/srt/layers/moe/fused_moe_triton/configs/"
     "triton_3_5_1/E=128,N=192,device_name=NVIDIA_H200_down.json. Fallback to triton version 3.2.0\n"
     "[2026-02-21 10:48:17 TP0] Using MoE kernel config from /sgl/python/sglang/srt/layers/moe/fused_moe_triton/"
     "configs/triton_3_2_0/E=128,N=192,device_name=NVIDIA_H200.json\n"
     "[2026-02-21 10:48:20 TP0] max_total_num_tokens=834615, chunked_prefill_size=8192, max_prefill_tokens=16384\n",
     {.gpus = "NVIDIA H200;NVIDIA H200", .package = "triton 3.5.1"}},
    {"SGLang",
     "[2026-04-14 16:08:44 TP1] Load weight begin. avail mem=22.93 GB\n"
     "[2026-04-14 16:08:44 TP0] Load weight begin. avail mem=22.93 GB\n",
     {.gpus = "unknown GPU;unknown GPU"}},
    {"vLLM",
     "INFO 05-03 17:42:03 [api_server.py:1289] vLLM API server version 0.8.5.post1\n"
     "INFO 05-03 17:42:13 [core.py:58] Initializing a V1 LLM engine (v0.8.5.post1) with config: model='x', seed=0\n"
     "INFO 05-03 17:42:15 [pynccl.py:69] vLLM is using nccl==2.21.5\n"
     "WARNING 05-03 17:42:23 [fused_moe.py:668] Using default MoE config. Performance might be sub-optimal! Config "
     "file "
     "not found at /usr/lib/python3.12/dist-packages/vllm/model_executor/layers/fused_moe/configs/"
     "E=16,N=1536,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json\n"
     "INFO 05-03 17:42:40 [kv_cache_utils.py:634] GPU KV cache size: 421,328 tokens\n",
     {.gpus = "NVIDIA H100 80GB HBM3", .package = "vllm 0.8.5.post1"}},
    {"vLLM",
     "INFO 01-10 10:00:00 llm_engine.py:234] Initializing an LLM engine (v0.6.3.post1) with config: model='x'\n"
     "INFO 01-10 10:00:09 worker.py:267] the current vLLM instance can use total_gpu_memory (79.15GiB) x "
     "gpu_memory_utilization (0.90) = 71.24GiB\n"
     "ValueError: Free memory on device cuda:0 (20.1/79.15 GiB) on startup is less than desired GPU memory "
     "utilization (0.9, 71.24 GiB).\n",
     {.gpus = "unknown GPU", .package = "vllm 0.6.3.post1", .memory_mib = 81049}},
    {"datasets",
     "INFO 01-10 10:00:00 config.py:54] PyTorch version 2.6.0+cu124 available.\n",
     {.torch = "2.6.0+cu124"}},
    {"TensorRT-LLM",
     "[TensorRT-LLM] TensorRT-LLM version: 0.17.0.post1\n[TensorRT-LLM][INFO] Rank 0 is using GPU 0\n"
     "[TensorRT-LLM][INFO] Rank 1 is using GPU 1\n[TensorRT-LLM][INFO] Memory usage when calculating max tokens in "
     "paged kv cache: total: 79.10 GiB, available: 70.48 GiB\n",
     {.gpus = "unknown GPU;unknown GPU", .package = "tensorrt-llm 0.17.0.post1", .memory_mib = 80998}},
    {"Triton server",
     "I0305 19:29:50.1 119 cuda_memory_manager.cc:107] CUDA memory pool is created on device 0 with size 67108864\n"
     "I0305 19:29:57.082829 119 metrics.cc:817] Collecting metrics for GPU 0: NVIDIA L20\n"
     "I0305 19:29:57.082854 119 metrics.cc:877] \"Collecting metrics for GPU 1: NVIDIA L20\"\n",
     {.gpus = "NVIDIA L20;NVIDIA L20"}},
    {"NVIDIA container",
     "NVIDIA Release 24.07 (build 100464919)\nPyTorch Version 2.4.0a0+3bcc3cddb5.nv24.07\n\n"
     "NOTE: CUDA Forward Compatibility mode ENABLED.\n"
     "  Using CUDA 12.5 driver version 555.42.06 with kernel driver version 535.161.08.\n",
     {.driver = "535.161.08", .torch = "2.4.0a0+3bcc3cddb5.nv24.07"}},
    {"NVIDIA container",
     "ERROR: This container was built for NVIDIA Driver Release 450.51 or later, but\n"
     "       version 440.33.01 was detected and compatibility mode is UNAVAILABLE.\n",
     {.driver = "440.33.01"}},
    {"TGI", "2025-01-09T10:00:00.1Z  INFO text_generation_launcher: Sharding model on 2 processes\n", {}},
    {"OpenMMLab",
     "sys.platform: win32\nPython: 3.12.11 | packaged by Anaconda, Inc.\nCUDA available: True\n"
     "GPU 0: NVIDIA GeForce RTX 4060 Laptop GPU\nPyTorch: 2.6.0+cu126\nLMDeploy: 0.9.2+\ntransformers: 4.55.0\n"
     "triton: 3.2.0\n",
     {.gpus = "NVIDIA GeForce RTX 4060 Laptop GPU", .torch = "2.6.0+cu126", .package = "lmdeploy 0.9.2"}},
    {"Windows",
     "           Card name: Intel(R) UHD Graphics 770\n    Dedicated Memory: 128 MB\n"
     "      Driver Version: 31.0.101.4255\n"
     "           Card name: NVIDIA GeForce RTX 3060\n    Dedicated Memory: 12129 MB\n"
     " Driver File Version: 31.00.0015.3623 (English)\n      Driver Version: 31.0.15.3623\n",
     {.gpus = "NVIDIA GeForce RTX 3060", .driver = "536.23", .memory_mib = 12129}},
    {"Windows",
     "Name                    DriverVersion\n----                    -------------\n"
     "NVIDIA GeForce RTX 4090 32.0.15.6094\n",
     {.gpus = "NVIDIA GeForce RTX 4090", .driver = "560.94"}},
    {"Windows",
     "DriverVersion  Name\n27.21.14.5638  NVIDIA GeForce GTX 1080\n",
     {.gpus = "NVIDIA GeForce GTX 1080", .driver = "456.38"}},
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
    {"ComfyUI launcher",
     "OS: Microsoft Windows NT 10.0.26100.0\n\nNVIDIA Management Library:\n  NVIDIA Driver Version: 572.60\n"
     "CUDA Driver:\n  Version: 12080\n  Devices: \n"
     "    00000000:01:00.0 0: NVIDIA GeForce RTX 4070 Ti SUPER [89] 15 GB\n",
     {.gpus = "NVIDIA GeForce RTX 4070 Ti SUPER", .driver = "572.60"}},
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

TEST(ProgramReport, RanksOfALaterNodeAreItsOwnGpusFromTheFirstOn) {
  const auto told = snapshot_of(
      "[2025-01-01 10:00:00 TP8] Load weight begin. avail mem=78.00 GB\n"
      "[2025-01-01 10:00:00 TP10] Load weight begin. avail mem=78.00 GB\n"
      "[2025-01-01 10:00:01 TP9] Load weight begin. avail mem=78.00 GB\n");
  ASSERT_EQ(told.gpus.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(told.gpus[i].gpu.index.value, i);
}

TEST(ProgramReport, ADriverNumberedByWindowsIsItsLastFiveDigits) {
  const auto told = snapshot_of("RTX 3080 here, Device Manager shows driver version 32.0.15.5585.\n");
  EXPECT_EQ(told.driver_version, "555.85");
  EXPECT_EQ(told.environment->host.distribution, "windows");
  for (const char* text : {"Driver Version: 31.0.101.4255\n", "Driver Version: 10.18.15.4281\n",
                           "Driver Version: 30.0.13025.1000\n", "host 31.0.15.36\n", "131.0.15.3623\n"})
    EXPECT_FALSE(read_capture(text, "test")) << text;
}

TEST(ProgramReport, AWindowsNumberBesideNvidiaSmisOwnIsOfAnotherSystem) {
  const auto told = snapshot_of(
      "Driver Version: 31.0.15.3623\n"
      "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |\n");
  EXPECT_EQ(told.driver_version, "550.54.15");
  EXPECT_FALSE(told.environment && told.environment->host.distribution);
}

}  // namespace
}  // namespace gpuwarden::capture
