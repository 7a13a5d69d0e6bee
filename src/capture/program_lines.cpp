// SPDX-License-Identifier: Apache-2.0
#include "capture/program_lines.hpp"

#include <array>

namespace gpuwarden::capture {
namespace {

// Sources: the programs' own code or documentation, named by file where it is one place.
constexpr auto kLines = std::to_array<ProgramLine>({
    // ultralytics, utils/torch_utils.py select_device, and utils/checks.py collect_system_info (`yolo checks`)
    {"ultralytics", " torch-", R"(^(?:Ultralytics|YOLOv\d)\b.* Python-(?P<python>[\d.]+) torch-(?P<torch>\d\S*))"},
    {"ultralytics", "CUDA:", R"( torch-\S+ CUDA:(?P<index>\d+) \((?P<gpu>[^,)]+), (?P<memory_mib>\d+)Mi?B\))"},
    {"ultralytics", "CUDA:", R"(^\s+CUDA:(?P<index>\d+) \((?P<gpu>[^,)]+), (?P<memory_mib>\d+)Mi?B\))"},
    {"ultralytics", "MiB", R"(^GPU {2,}(?P<gpu>[^,]+), (?P<memory_mib>\d+)MiB$)"},
    {"ultralytics", "CUDA  ", R"(^CUDA {2,}(?P<cuda_build>\d+\.\d+)$)", false},
    {"ultralytics", "OS  ", R"(^OS {2,}(?P<platform>(?:Linux|Windows)-\S+)$)", false},
    {"ultralytics", "Python  ", R"(^Python {2,}(?P<python>\d[\d.]+)$)", false},
    {"ultralytics", "✅", R"(^(?P<name>[a-z][\w-]*) +✅ (?P<version>\d[\w.+]*?)(?:[<>=!]|$))", false},
    // ComfyUI, comfy/model_management.py and main.py (its dash behind the time stays); the error reports of its web
    // page
    {"ComfyUI", "pytorch version: ", R"(^(?:- )?pytorch version: (?P<torch>\d\S*))"},
    {"ComfyUI", "Device: cuda:", R"(^(?:- )?Device: cuda:(?P<index>\d+) (?P<gpu>.+?) :(?: \w+)?$)"},
    {"ComfyUI", "Total VRAM ", R"(^(?:- )?Total VRAM (?P<memory_mib>\d+) MB, total RAM )"},
    {"ComfyUI", "Python version: ", R"(^(?:- )?\** ?Python version: (?P<python>\d[\d.]+))", false},
    {"ComfyUI", "PyTorch Version:", R"(^- \*\*PyTorch Version:\*\* (?P<torch>\d\S*))"},
    {"ComfyUI", "Name:** cuda:", R"(^- \*\*Name:\*\* cuda:(?P<index>\d+) (?P<gpu>.+?) :(?: \w+)?$)"},
    {"ComfyUI", "VRAM Total:", R"(\*\*VRAM Total:\*\* (?P<memory_bytes>\d+))"},
    {"ComfyUI", "Python Version:", R"(^- \*\*Python Version:\*\* (?P<python>\d[\d.]+))", false},
    {"ComfyUI", "**OS:** ", R"(\*\*OS:\*\* (?P<os>nt|win32)$)", false},
    // The launcher for Windows that many of its users have, by its report's form (Impact-Pack#1069)
    {"ComfyUI launcher", " [",
     R"(^\s+[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d (?P<index>\d+): (?P<gpu>NVIDIA .+?) \[(?P<sm>\d{2,3})\] \d+ GB$)"},
    {"ComfyUI launcher", "NVIDIA Driver Version: ", R"(^\s+NVIDIA Driver Version: (?P<driver>\d{3}\.\d{2})$)", false},
    {"ComfyUI launcher", "OS: Microsoft Windows", R"(^OS: Microsoft (?P<os>Windows) NT )", false},
    // Unsloth, unsloth/models/_utils.py and loader.py
    {"Unsloth", "Unsloth ",
     R"(Unsloth:? (?P<p_unsloth>\d[\d.]+):? Fast .*Transformers: (?P<p_transformers>\d[\w.]*\w))"},
    {"Unsloth", "Max memory: ",
     R"((?P<gpu>(?:NVIDIA|Tesla) .+?)\. (?:Num GPUs = (?P<count>\d+)\. )?Max memory: (?P<memory_gib>[\d.]+) GB\. Platform)"},
    {"Unsloth", "CUDA Toolkit",
     R"([Tt]orch: (?P<torch>\d\S*?)\. CUDA: (?P<capability>\d+\.\d)\. CUDA Toolkit:? (?:=\s*)?(?P<cuda_build>\d+\.\d))"},
    {"Unsloth", "Triton: ", R"(CUDA Toolkit.*Triton: (?P<p_triton>\d[\d.]*\d))"},
    // PyTorch, torch/cuda/__init__.py: its warnings about GPUs without code name them
    {"PyTorch", " with CUDA capability sm_",
     R"((?:^|: )(?P<gpu>[^:]{4,60}?) with CUDA capability sm_(?P<sm>\d+) is not compatible)"},
    {"PyTorch", "Found GPU",
     R"(Found GPU ?(?P<index>\d+) (?P<gpu>.{4,60}?) which is of (?:cuda capability|compute capability \(CC\)) (?P<capability>\d+\.\d+))"},
    // TensorFlow, core/common_runtime/gpu/gpu_device.cc
    {"TensorFlow", "physical GPU (device: ",
     R"(device: (?P<index>\d+), name: (?P<gpu>[^,]+), pci bus id: \S+, compute capability: (?P<capability>[\d.]+)\))"},
    {"TensorFlow", " -> device: ",
     R"(-> device: (?P<index>\d+), name: (?P<gpu>[^,]+), pci bus id: \S+, compute capability: (?P<capability>[\d.]+))"},
    // llama.cpp, whisper.cpp, stable-diffusion.cpp: ggml-cuda.cu ggml_cuda_init, ggml-vulkan.cpp, llama.cpp
    {"ggml", ", compute capability ",
     R"(^(?:[\d.]+ [A-Z] )?\s*Device (?P<index>\d+): (?P<gpu>.+?), compute capability (?P<capability>\d+\.\d)(?:, VMM: \w+)?(?:, VRAM: (?P<memory>\d+ MiB))?)"},
    {"ggml", ", gfx", R"(^(?:[\d.]+ [A-Z] )?\s*Device (?P<index>\d+): (?P<gpu>.+?), (?P<gfx>gfx\w+)\S* \(0x)"},
    {"ggml", "-windows-", R"(^build: .* for \S*-(?P<os>windows)-)", false},
    {"ggml", ".dll", R"(loaded \w+ backend from [A-Za-z]:\\.*(?P<os>\.dll)$)", false},
    {"ggml", "using device CUDA",
     R"(using device CUDA(?P<index>\d+) \((?P<gpu>[^()]+)\) (?:\([^)]*\) )?- \d+ MiB free)"},
    {"ggml", "ggml_vulkan: ", R"(ggml_vulkan: (?P<index>\d+) = (?P<gpu>.+?) \()"},
    // ollama, discover/types.go; its later releases have description= where name= is the backend's
    {"ollama", "msg=\"inference compute\"",
     R"re(id=(?P<uuid>GPU-\S+) .*(?:description|name)="(?P<gpu>[^"]+)".* total="(?P<memory>[\d.]+ [GM]iB)")re"},
    {"ollama", "msg=\"inference compute\"", R"(library=(?:cuda|CUDA)\b.* compute=(?P<capability>\d+\.\d))"},
    {"ollama", "msg=\"inference compute\"", R"(library=(?:cuda|CUDA)\b.* driver=(?P<cuda_driver>\d+\.\d+))"},
    {"ollama", "msg=\"inference compute\"",
     R"re(library=(?:rocm|ROCm)\b.*(?:description|name)="(?P<gpu>AMD [^"]+)".* total="(?P<memory>[\d.]+ [GM]iB)")re"},
    {"ollama", "msg=\"inference compute\"", R"(library=(?:rocm|ROCm)\b.* compute=(?P<gfx>gfx\w+))"},
    // SGLang: srt/managers/scheduler.py and model_executor/model_runner.py, with "TP3" of each process; the names of
    // tuned kernels' files in layers/moe/fused_moe_triton have GPU and Triton
    {"SGLang", "Load weight begin. ", R"((?: TP(?P<tp>\d+)\] |^)Load weight begin\. avail mem=[\d.]+ GB)"},
    {"SGLang", "Load weight end. ", R"((?: TP(?P<tp>\d+)\] |^)Load weight end\. .*avail mem=)"},
    {"SGLang", "KV Cache is allocated. ", R"((?: TP(?P<tp>\d+)\] |^)KV Cache is allocated\. .*#tokens: \d)"},
    {"SGLang", "Capture cuda graph begin", R"((?: TP(?P<tp>\d+)\] |^)Capture cuda graph begin\.)"},
    {"SGLang", "max_total_num_tokens=", R"((?: TP(?P<tp>\d+)\] |^)max_total_num_tokens=\d+, chunked_prefill_size=)"},
    {"SGLang", "server_args=ServerArgs(", R"(server_args=ServerArgs\(model_path=)"},
    {"SGLang", "device_name=",
     R"(Config file not found at \S*/sglang/\S*?(?:/triton_(?P<u_triton>\d+_\d+_\d+))?/E=\S*device_name=(?P<device>\w+?)(?:,|\.json))"},
    {"SGLang", "device_name=", R"(/sglang/srt/\S*device_name=(?P<device>\w+?)(?:,|\.json))"},
    // vLLM: v1/engine/core.py, entrypoints/openai/api_server.py, v1/worker/gpu_worker.py, worker/worker.py (V0),
    // distributed/device_communicators/pynccl.py, model_executor/layers/fused_moe
    {"vLLM", " LLM engine (v", R"(Initializing an? (?:V[01] )?LLM engine \(v(?P<p_vllm>\d[\w.+]*)\) with config)"},
    {"vLLM", "vLLM API server version ", R"(vLLM API server version (?P<p_vllm>\d[\w.+]*))"},
    {"vLLM", "vLLM is using nccl==", R"(vLLM is using nccl==\d[\d.]+)"},
    {"vLLM", "total_gpu_memory (", R"(can use total_gpu_memory \((?P<memory_gib>[\d.]+) ?GiB\))"},
    {"vLLM", "Free memory on device",
     R"(Free memory on device (?:cuda:(?P<rank>\d+) )?\([\d.]+/(?P<memory_gib>[\d.]+) GiB\))"},
    {"vLLM", "GPU KV cache size: ", R"(GPU KV cache size: [\d,]+ tokens)"},
    {"vLLM", "device_name=", R"(/vllm/\S*device_name=(?P<device>\w+?)(?:,|\.json))"},
    // Hugging Face datasets, config.py
    {"datasets", "PyTorch version ", R"(PyTorch version (?P<torch>\d[\w.+]*\w) available\.?$)"},
    // TensorRT-LLM: tensorrt_llm/__init__.py, cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp
    {"TensorRT-LLM",
     "TensorRT-LLM version: ", R"(\[TensorRT-LLM\](?:\[INFO\])? TensorRT-LLM version: (?P<p_tensorrt_llm>\d[\w.]*))"},
    {"TensorRT-LLM", " is using GPU ", R"(\[TensorRT-LLM\]\[INFO\] Rank \d+ is using GPU (?P<rank>\d+))"},
    {"TensorRT-LLM", "in paged kv cache: total: ", R"(in paged kv cache: total: (?P<memory>[\d.]+ GiB), available: )"},
    // Triton Inference Server: core/src/metrics.cc, cuda_memory_manager.cc; NVIDIA's containers, entrypoint.d
    {"Triton server", "Collecting metrics for GPU ",
     R"re(Collecting metrics for GPU (?P<index>\d+): (?P<gpu>(?:NVIDIA|Tesla|GRID|Quadro|GeForce) [^"]+?)"?$)re"},
    {"Triton server", "CUDA memory pool is created on device ",
     R"(memory pool is created on device (?P<rank>\d+) with)"},
    {"NVIDIA container", "with kernel driver version ",
     R"(with kernel driver version (?P<driver>\d{3}\.[\d.]*\d)\.?$)"},
    {"NVIDIA container", "was detected and compatibility mode",
     R"(version (?P<driver>\d{3}\.[\d.]*\d) was detected and compatibility mode)"},
    {"NVIDIA container", "PyTorch Version ", R"(^PyTorch Version (?P<torch>\d\S*\.nv\d\S*)$)"},
    // Text Generation Inference, launcher/src/main.rs; its nvidia-smi is read as such
    {"TGI",
     "text_generation_launcher: ", R"( text_generation_launcher: (?:Args|Sharding|Starting|Shard|Default|Using))"},
    // LMDeploy, cli/utils.py: mmengine's report with lines of its own
    {"OpenMMLab", "LMDeploy: ", R"(^LMDeploy: (?P<p_lmdeploy>\d[\w.]*))"},
    {"OpenMMLab", "transformers: ", R"(^transformers: (?P<p_transformers>\d\S*)$)", false},
    {"OpenMMLab", "triton: ", R"(^triton: (?P<p_triton>\d\S*)$)", false},
    {"OpenMMLab", "sys.platform: win32", R"(^sys\.platform: (?P<os>win32)$)", false},
    // Windows: dxdiag, msinfo32, wmic, PowerShell's Get-CimInstance Win32_VideoController, Device Manager, GPU-Z. Only
    // NVIDIA's drivers since WDDM 2.1 have such numbers: Intel's and AMD's third part differs, see driver_of_windows()
    {"Windows", ".0.1", R"((?:^|[^\d.])(?P<driver>3\d\.0\.1[4-9]\.\d{4})(?:[^\d.]|\.?$))"},
    {"Windows", ".21.1", R"((?:^|[^\d.])(?P<driver>2[1-7]\.21\.1[34]\.\d{4})(?:[^\d.]|\.?$))"},
    {"Windows", "NVIDIA ",
     R"(^\s*(?:Card name|Name|Caption|Description|Adapter Description|Adapter Type|FriendlyName|DeviceName)\s*[:=\t]\s*(?P<gpu>NVIDIA .+)$)",
     false},
    {"Windows", "NVIDIA ", R"(^(?P<gpu>NVIDIA \S.*?) +[23]\d\.[\d.]+(?: |$))", false},
    {"Windows", "NVIDIA ", R"(^[23]\d\.\d+\.1\d\.\d{4} +(?P<gpu>NVIDIA \S.*?)(?:  |$))", false},
    {"Windows", "Card name: ", R"(^\s*Card name: (?P<other>[^N].*)$)", false},
    {"Windows", "Dedicated Memory: ", R"(^\s*Dedicated Memory: (?P<memory_mib>\d+) MB)", false},
    // CUDA samples, deviceQuery.cpp
    {"deviceQuery", "Device ", R"re(^Device (?P<index>\d+): "(?P<gpu>[^"]+)"$)re"},
    {"deviceQuery", "CUDA Driver Version / Runtime Version",
     R"(CUDA Driver Version / Runtime Version +(?P<cuda_driver>\d+\.\d) / )"},
    {"deviceQuery", "CUDA Capability Major/Minor",
     R"(CUDA Capability Major/Minor version number: +(?P<capability>\d+\.\d))", false},
    {"deviceQuery", "Total amount of global memory", R"(global memory: +(?P<memory_mib>\d+) MBytes)", false},
    // CUDA.jl, lib/utils/versioninfo
    {"CUDA.jl", "GiB available)",
     R"(^ *(?P<index>\d+): (?P<gpu>.+?) \(sm_(?P<sm>\d+), [\d.]+ GiB / (?P<memory>[\d.]+ GiB) available\))"},
    {"CUDA.jl", "- driver ", R"(^- driver (?P<driver>\d{3}\.\d+\.\d+) for (?P<cuda_driver>\d+\.\d+))"},
    {"CUDA.jl", ": NVIDIA ", R"(^ +(?P<index>\d+): (?P<gpu>NVIDIA [^()]+)$)", false},
    {"CUDA.jl", "CUDA driver ", R"(^CUDA driver (?P<cuda_driver>\d+\.\d+))", false},
    {"CUDA.jl", "NVIDIA driver ", R"(^NVIDIA driver (?P<driver>\d{3}\.[\d.]+))", false},
    // numba -s, numba/misc/numba_sysinfo.py
    {"Numba", "id ", R"(^id (?P<index>\d+) +b'(?P<gpu>[^']+)' +\[(?:NOT )?SUPPORTED)"},
    {"Numba", "Compute Capability:", R"(^ +Compute Capability: (?P<capability>\d+\.\d)$)", false},
    {"Numba", "CUDA Driver Version", R"(^CUDA Driver Version +: (?P<cuda_driver>\d+\.\d+)$)", false},
    {"Numba", "Python Version", R"(^Python Version +: (?P<python>\d[\d.]+)$)", false},
    // cupy.show_config(), cupyx/_runtime.py
    {"CuPy", "CuPy Version", R"(^CuPy Version +: (?P<p_cupy>\d\S*))"},
    {"CuPy", " Name ", R"(^Device (?P<index>\d+) Name +: (?P<gpu>.+)$)", false},
    {"CuPy", "Compute Capability", R"(^Device \d+ Compute Capability +: (?P<sm>\d{2,3})$)", false},
    {"CuPy", "CUDA Driver Version", R"(^CUDA Driver Version +: (?P<cuda_number>\d{5})$)", false},
    {"CuPy", "Python Version", R"(^Python Version +: (?P<python>\d[\d.]+)$)", false},
    {"CuPy", "OS ", R"(^OS +: (?P<platform>(?:Linux|Windows)-\S+)$)", false},
    // lightning, requirements/collect_env_details.py
    {"Lightning", "lightning:", R"(^\s*- (?:pytorch-)?lightning: +(?P<p_lightning>\d\S*))"},
    {"Lightning", "torch:", R"(^\s*- torch: +(?P<torch>\d\S*))", false},
    {"Lightning", "available:", R"(^\s*- available: +(?P<cuda_available>True|False))", false},
    {"Lightning", "version:", R"(^\s*- version: +(?P<cuda_build>\d+\.\d+)$)", false},
    {"Lightning", "python:", R"(^\s*- python: +(?P<python>\d[\d.]+))", false},
    {"Lightning", "- ", R"(^\s*- (?P<gpu>(?:NVIDIA|Tesla|GeForce|Quadro|GRID) .+)$)", false},
    // xFormers, xformers/info.py
    {"xFormers", "pytorch.version:", R"(^pytorch\.version: +(?P<torch>\d\S*))"},
    {"xFormers", "gpu.name:", R"(^gpu\.name: +(?P<gpu>.+)$)"},
    {"xFormers", "gpu.compute_capability:", R"(^gpu\.compute_capability: +(?P<capability>\d+\.\d))"},
    {"xFormers", "xFormers ", R"(^xFormers (?P<p_xformers>\d\S*)$)", false},
    // mmengine, utils/dl_utils/collect_env.py; its values stand behind a colon like sglang's
    {"OpenMMLab", "MMEngine: ", R"(^MMEngine: (?P<p_mmengine>\d\S*))"},
    {"OpenMMLab", "MMCV: ", R"(^MMCV: (?P<p_mmcv>\d\S*))"},
    {"OpenMMLab", "PyTorch: ", R"(^PyTorch: (?P<torch>\d\S*))", false},
    {"OpenMMLab", "TorchVision: ", R"(^TorchVision: (?P<p_torchvision>\d\S*))", false},
    {"OpenMMLab", "CUDA available: ", R"(^CUDA available: (?P<cuda_available>True|False))", false},
    {"OpenMMLab", "GPU ", R"(^GPU (?P<index>[\d,]+): (?P<gpu>.+)$)", false},
    {"OpenMMLab", "Python: ", R"(^Python: (?P<python>\d[\d.]+))", false},
    // detectron2, utils/collect_env.py
    {"detectron2", "detectron2 ", R"(^detectron2 {2,}(?P<p_detectron2>\d\S*))"},
    {"detectron2", "PyTorch ", R"(^PyTorch {2,}(?P<torch>\d\S*))", false},
    {"detectron2", "GPU ", R"(^GPU (?P<index>[\d,]+) {2,}(?P<gpu>.+?)(?: \(arch=(?P<capability>\d+\.\d)\))?$)", false},
    {"detectron2", "Driver version ", R"(^Driver version {2,}(?P<driver>\d{3}\.[\d.]+))", false},
    {"detectron2", " available ", R"(^(?:GPU|CUDA) available {2,}(?P<cuda_available>Yes|No|True|False)\b)", false},
    // python -m flashinfer collect_env
    {"FlashInfer", " (CUDA order)",
     R"(^GPU (?P<index>\d+) \(CUDA order\) +: (?P<gpu>[^|]+?) \| SM(?P<sm>\d+) \| .*\| (?P<memory>[\d.]+ GiB)$)"},
    {"FlashInfer", "flashinfer ", R"(^flashinfer +: (?P<p_flashinfer_python>\d\S*))", false},
    {"FlashInfer", "torch ", R"(^torch +: (?P<torch>\d\S*))", false},
    {"FlashInfer", "Driver version ", R"(^Driver version +: (?P<driver>\d{3}\.[\d.]+))", false},
    {"FlashInfer", "Platform ", R"(^Platform +: (?P<platform>Linux-\S+))", false},
    {"FlashInfer", "OS ", R"(^OS +: (?P<os>.+)$)", false},
    {"FlashInfer", "Python ", R"(^Python +: (?P<python>\d[\d.]+))", false},
    // TensorRT, samples/common/sampleReporting.cpp
    {"trtexec", "Selected Device: ", R"(Selected Device: (?P<gpu>.+)$)"},
    {"trtexec", "Compute Capability: ", R"(Compute Capability: (?P<capability>\d+\.\d)$)", false},
    {"trtexec", "lobal ", R"((?:Device Global Memory|Total amount of global memory): (?P<memory>\d+ MiB))", false},
    {"trtexec", "TensorRT version: ", R"(TensorRT version: (?P<p_tensorrt>\d[\d.]*\d))", false},
    // GROMACS, src/gromacs/hardware (its 12.20 is 12.2); NAMD, DeviceCUDA.C; hashcat, src/terminal.c
    {"GROMACS", "compute cap.: ", R"(#(?P<index>\d+): NVIDIA (?P<gpu>[^,]+), compute cap\.: (?P<capability>\d+\.\d))"},
    {"GROMACS", "CUDA driver:", R"(^\s*CUDA driver: +(?P<cuda_driver>\d+\.\d)0?$)", false},
    {"NAMD", "binding to CUDA device ",
     R"(binding to CUDA device (?P<index>\d+) on \S+ '(?P<gpu>[^']+)' +Mem: (?P<memory_mib>\d+)MB +Rev: (?P<capability>\d+\.\d))"},
    {"hashcat", "CUDA API (CUDA ", R"(^CUDA API \(CUDA (?P<cuda_driver>\d+\.\d+)\))"},
    {"hashcat", "* Device #", R"(^\* Device #(?P<number>\d+): (?P<gpu>NVIDIA [^,]+), \d+/(?P<memory_mib>\d+) MB)"},
    // PaddlePaddle, phi/backends/gpu/gpu_resources.cc
    {"PaddlePaddle", "GPU Compute Capability: ",
     R"(GPU Compute Capability: (?P<capability>\d+\.\d), Driver API Version: (?P<cuda_driver>\d+\.\d+), Runtime)"},
    // clinfo, vulkaninfo, glxinfo, inxi, Blender
    {"clinfo", "NVIDIA CUDA", R"(^\s*Platform Name +NVIDIA CUDA$)"},
    {"clinfo", "Device Name ", R"(^\s*Device Name +(?P<gpu>(?:NVIDIA|Tesla|Quadro|GeForce|GRID) .+)$)", false},
    {"clinfo", "Driver Version ", R"(^\s*Driver Version +(?P<driver>\d{3}\.[\d.]+)$)", false},
    {"vulkaninfo", "deviceName ", R"(^\s*deviceName += (?P<gpu>NVIDIA .+)$)"},
    {"vulkaninfo", "driverInfo ", R"(^\s*driverInfo += (?P<driver>\d{3}\.[\d.]+)$)", false},
    {"glxinfo", "OpenGL renderer string: ", R"(OpenGL renderer string: (?P<gpu>NVIDIA .+?)(?:/PCIe.*)?$)"},
    {"glxinfo", "version string: ", R"(OpenGL (?:core profile )?version string: .* NVIDIA (?P<driver>\d{3}\.[\d.]+))"},
    {"inxi", ": NVIDIA ", R"(^(?:Graphics: +|\s*)Device-(?P<number>\d+): NVIDIA .*\[(?P<gpu>[^\]]+)\])"},
    {"inxi", "v: ", R"(\bdriver: nvidia(?:,\w+)? v: (?P<driver>\d{3}\.[\d.]+))", false},
    {"inxi", "v: ", R"(^\s*v: (?P<driver>\d{3}\.[\d.]+) (?:arch|alternate|non-free|pcie|ports|bus-ID):?)", false},
    {"inxi", "driver: nouveau", R"(\bdriver: (?P<module>nouveau)\b)", false},
    {"Blender", "Graphics card: ",
     R"(^Graphics card: (?P<gpu>NVIDIA .+?)(?:/PCIe\S*)? NVIDIA Corporation [\d.]+ NVIDIA (?P<driver>\d{3}\.[\d.]+))"},
    {"Blender", "Operating system: ", R"(^Operating system: (?P<platform>(?:Linux|Windows)-\S+))", false},
    // neofetch, fastfetch and people's own lines
    {"fastfetch", "Packages: ", R"((?:^| )Packages: \d+ \()"},
    {"fastfetch", "[Discrete]", R"((?:^| )GPU(?: \d)?: (?P<gpu>NVIDIA .+?)(?: @ .*)? \[Discrete\]$)"},
    {"fastfetch", "GPU: ", R"((?:^| )GPU: (?P<gpu>NVIDIA [^\[\]]+)$)", false},
    // nvitop's table
    {"nvitop", "NVITOP ",
     R"(NVITOP \S+ +Driver Version: (?P<driver>\d{3}\.[\d.]+) +CUDA Driver Version: (?P<cuda_driver>\d+\.\d+))"},
    {"nvitop", "│",
     R"(^│ +(?P<index>\d+) +(?P<gpu>(?:NVIDIA|GeForce|Tesla|Quadro|GRID|[AHLVBTP]\d+)\S*(?: \S+)*?) +(?:On|Off) +│)",
     false},
});

}  // namespace

std::span<const ProgramLine> program_lines() { return kLines; }

}  // namespace gpuwarden::capture
