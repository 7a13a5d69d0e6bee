// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/maker_steps.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

/// What a step names, and what is done instead.
struct AmdsOwn {
  std::string_view words;  ///< between bars: a step with one of them
  std::string_view amd;    ///< empty: nothing
};

/// Whole steps, in the order in which they are looked for.
constexpr auto kSteps = std::to_array<AmdsOwn>({
    {"CUDA toolkit of the same version",
     "Install ROCm with its compiler (hipcc), of the release that the framework was built with (python -c 'import "
     "torch; print(torch.version.hip)')."},
    {"CUDA_HOME=", "export ROCM_HOME=/opt/rocm PATH=/opt/rocm/bin:$PATH"},
    {"$CUDA_HOME", "echo $ROCM_HOME"},
    {"nvcc --version", "hipcc --version; ls -d /opt/rocm*"},
    {"--query-compute-apps|fuser -v /dev/nvidia", "sudo amd-smi process   # who uses the GPUs"},
    {"memory.total|memory.used|memory.free", "amd-smi metric --mem-usage"},
    {"compute_cap", "rocminfo | grep gfx"},
    {"nvidia-smi -r|--gpu-reset", "sudo amd-smi reset --gpureset   # and --gpu with its number"},
    {"ECC|ecc.|PAGE_RETIREMENT|ROW_REMAPPER", "amd-smi metric --ecc; amd-smi bad-pages"},
    {"lsmod|/proc/driver/nvidia", "lsmod | grep amdgpu; dkms status"},
    {"modinfo nvidia", "modinfo amdgpu | grep -E 'version|vermagic'"},
    {"TORCH_CUDA_ARCH_LIST",
     "If you build it yourself, add the GPU's gfx target and build again: export "
     "PYTORCH_ROCM_ARCH, or -DCMAKE_HIP_ARCHITECTURES."},
    {"NVreg_", ""},
});

/// Words within what is left; the longer one first.
constexpr auto kWords = std::to_array<AmdsOwn>({
    {"nvidia-smi -L", "amd-smi list"},
    {"nvidia-smi topo -m", "amd-smi topology"},
    {"ls -lZ /dev/nvidia* /dev/kfd", "ls -lZ /dev/kfd"},
    {"ls -l /dev/nvidia* /dev/kfd", "ls -l /dev/kfd"},
    {"/dev/nvidia*", "/dev/kfd /dev/dri/render*"},
    {"modprobe nvidia", "modprobe amdgpu"},
    {"nvidia.com/gpu", "amd.com/gpu"},
    {"--gpus all", "--device /dev/kfd --device /dev/dri"},
    {"CUDA_LAUNCH_BLOCKING=1", "AMD_SERIALIZE_KERNEL=3"},
    {"grep -iE 'nvrm|nvidia'", "grep -i amdgpu"},
    {"grep -iE 'nvrm|xid'", "grep -i amdgpu"},
    {"grep -iE 'xid|nvrm'", "grep -i amdgpu"},
    {"grep -i -E 'nvrm|xid'", "grep -i amdgpu"},
    {"grep -i nvrm", "grep -i amdgpu"},
    {"grep -i xid", "grep -i amdgpu"},
    {"grep Xid", "grep -i amdgpu"},
});

/// What no machine with AMD's GPUs has.
constexpr auto kNvidiasAlone = std::to_array<std::string_view>(
    {"nvidia",          "xid",          "nvrm",     "nvcc",           "cuobjdump", "dcgm",         "compute-sanitizer",
     "cuda toolkit",    "cuda-toolkit", "cuda 1",   "nsight",         "nvlink",    "nvswitch",     "nouveau",
     "/usr/local/cuda", "nvml",         "cuda-gdb", "fabric manager", "cuda_mps",  "mig instance", "blackwell",
     "hopper",          "ampere"});
/// A step that names these, too, speaks of both.
constexpr auto kOfBoth = std::to_array<std::string_view>({"rocm-smi", "amd-smi", "rocminfo", "AMD"});

constexpr std::string_view kRocm = "https://rocm.docs.amd.com/en/latest/";

/// Beginnings of NVIDIA's pages, the longer one first.
constexpr auto kPagesOfAmd = std::to_array<AmdsOwn>({
    {"https://docs.nvidia.com/compute-sanitizer",
     "https://rocm.docs.amd.com/projects/HIP/en/latest/how-to/debugging.html"},
    {"https://docs.nvidia.com/cuda/cuda-installation-guide",
     "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/"},
    {"https://docs.nvidia.com/cuda/", "https://rocm.docs.amd.com/projects/HIP/en/latest/"},
    {"https://docs.nvidia.com/deploy/",
     "https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html"},
    {"https://docs.nvidia.com/deeplearning/nccl", "https://rocm.docs.amd.com/projects/rccl/en/latest/"},
    {"https://docs.nvidia.com/datacenter/cloud-native/container-toolkit",
     "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html"},
    {"https://docs.nvidia.com/datacenter/tesla/driver-installation-guide",
     "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/"},
    {"https://docs.nvidia.com", kRocm},
    {"https://developer.nvidia.com", kRocm},
    {"https://download.nvidia.com", kRocm},
});

std::string with_amds_words(std::string step) {
  for (const AmdsOwn& one : kWords) {
    for (std::size_t at = step.find(one.words); at != std::string::npos; at = step.find(one.words, at + one.amd.size()))
      step.replace(at, one.words.size(), one.amd);
  }
  // Alone, and in a sentence: "If nvidia-smi shows the GPU"; with options of its own it is another command.
  constexpr std::string_view kSmi = "nvidia-smi";
  for (std::size_t at = step.find(kSmi); at != std::string::npos; at = step.find(kSmi, at + 1)) {
    const std::string_view rest = std::string_view(step).substr(at + kSmi.size());
    if (!rest.starts_with(" -") && !rest.starts_with(".exe")) step.replace(at, kSmi.size(), "amd-smi");
  }
  return step;
}

std::string step_for_amd(const std::string& step) {
  const auto names = [&](const AmdsOwn& one) {
    return std::ranges::any_of(split(one.words, '|'), [&](std::string_view word) { return step.contains(word); });
  };
  const auto* const own = std::ranges::find_if(kSteps, names);
  if (own != kSteps.end()) return std::string(own->amd);
  const std::string said = with_amds_words(step);
  return is_of_nvidia_alone(said) ? "" : said;
}

}  // namespace

bool is_of_nvidia_alone(std::string_view step) {
  if (std::ranges::any_of(kOfBoth, [&](std::string_view word) { return step.contains(word); })) return false;
  return std::ranges::any_of(kNvidiasAlone, [&](std::string_view word) { return contains_ignoring_case(step, word); });
}

std::vector<std::string> steps_for_amd(const std::vector<std::string>& steps) {
  std::vector<std::string> result;
  for (const std::string& step : steps) {
    std::string said = step_for_amd(step);
    if (!said.empty() && std::ranges::find(result, said) == result.end()) result.push_back(std::move(said));
  }
  return result;
}

std::string link_for_amd(std::string_view link) {
  const auto* const page =
      std::ranges::find_if(kPagesOfAmd, [&](const AmdsOwn& one) { return link.starts_with(one.words); });
  return std::string(page == kPagesOfAmd.end() ? link : page->amd);
}

}  // namespace gpuwarden::knowledge
