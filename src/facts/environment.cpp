// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/environment.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::facts {

namespace {

template <class T>
const T* named(const std::vector<T>& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &T::name);
  return found == list.end() ? nullptr : &*found;
}

/// Beginnings of the names.
constexpr auto kVariables =
    std::to_array<std::string_view>({"CUBLAS_",         "CUDA_",      "CUDNN_", "HIP_",    "HSA_",   "JAX_",
                                     "LD_LIBRARY_PATH", "LD_PRELOAD", "NCCL_",  "NVIDIA_", "NVCC_",  "NVSHMEM_",
                                     "OMP_NUM_THREADS", "PYTORCH_",   "ROCR_",  "SGLANG_", "SLURM_", "TF_",
                                     "TORCH",           "TRITON_",    "UCX_",   "VLLM_",   "XLA_"});
/// Words in names of secrets. TOKENIZERS_... and the like are none of the names above.
constexpr auto kSecret = std::to_array<std::string_view>({"TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "AUTH"});

/// Packages that matter to GPU software, by their normalised names; a last '*' stands for any ending.
constexpr auto kPackages = std::to_array<std::string_view>({
    "torch",
    "torchvision",
    "torchaudio",
    "torchao",
    "vllm",
    "sglang",
    "sgl-kernel",
    "flashinfer*",
    "tensorflow*",
    "jax",
    "jaxlib",
    "jax-cuda*",
    "flash-attn*",
    "triton*",
    "xformers",
    "bitsandbytes",
    "deepspeed",
    "transformers",
    "accelerate",
    "peft",
    "numpy",
    "nvidia-*",
    "cupy*",
    "onnxruntime*",
    "tensorrt*",
    "llama-cpp-python",
    "xgrammar",
    "apex",
    "megatron*",
    "transformer-engine*",
    "ray",
    "lightning",
    "pytorch-lightning",
    "pynvml",
    "cuda-python",
    "cudf*",
    "numba*",
    "cuda-nvcc*",
    "cuda-version",
    "cudatoolkit*",
    "cudnn",
    "nccl",
    "pytorch-cuda",
    "nemo-toolkit",
    "paddlepaddle*",
    "mxnet*",
    "diffusers",
    "unsloth*",
    "trl",
    "auto-gptq",
    "autoawq",
    "gptqmodel",
    "exllamav2",
    "mamba-ssm",
    "causal-conv1d",
    "onnx",
    "lmdeploy",
    "torchtune",
    "dgl*",
    "cuml*",
    "nvshmem*",
    "deep-ep",
    "deep-gemm",
});

}  // namespace

std::string normalised_package(std::string_view name) {
  std::string result = to_lower(name);
  std::ranges::replace_if(result, [](char c) { return c == '_' || c == '.'; }, '-');
  return result;
}

bool is_gathered_package(std::string_view name) {
  return std::ranges::any_of(kPackages, [&](std::string_view wanted) {
    return wanted.ends_with('*') ? name.starts_with(wanted.substr(0, wanted.size() - 1)) : name == wanted;
  });
}

std::optional<std::string> cuda_of_build(std::string_view build) {
  const std::size_t at = build.find("cuda");
  if (at == std::string_view::npos) return build.contains("cpu") ? std::optional<std::string>("") : std::nullopt;
  const std::string_view rest = build.substr(at + 4);
  const std::string_view number = rest.substr(0, std::min(rest.find_first_not_of("0123456789."), rest.size()));
  const auto parts = split(number, '.');
  if (parts.size() >= 2 && !parts[0].empty() && !parts[1].empty())
    return std::string(parts[0]) + "." + std::string(parts[1]);
  if (number.size() != 3) return std::nullopt;
  return std::string(number.substr(0, 2)) + "." + std::string(number.substr(2));
}

bool is_gathered_variable(std::string_view name) {
  const bool identifier = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return identifier && std::ranges::any_of(kVariables, [&](auto beginning) { return name.starts_with(beginning); }) &&
         std::ranges::none_of(kSecret, [&](auto word) { return name.contains(word); });
}

std::string_view to_string(ModuleFlavour flavour) { return flavour == ModuleFlavour::open ? "open" : "proprietary"; }

std::string_view to_string(DeviceNode::Refusal refusal) {
  if (refusal == DeviceNode::Refusal::file_mode) return "file_mode";
  return refusal == DeviceNode::Refusal::cgroup ? "cgroup" : "other";
}

std::optional<DeviceNode::Refusal> node_refusal_from(std::string_view name) {
  using enum DeviceNode::Refusal;
  for (const DeviceNode::Refusal refusal : {file_mode, cgroup, other}) {
    if (to_string(refusal) == name) return refusal;
  }
  return std::nullopt;
}

std::optional<ModuleFlavour> module_flavour_from(std::string_view name) {
  if (name == "open") return ModuleFlavour::open;
  if (name == "proprietary") return ModuleFlavour::proprietary;
  return std::nullopt;
}

const std::string* find_variable(const Environment& environment, std::string_view name) {
  const Variable* variable = named(environment.variables, name);
  return variable == nullptr ? nullptr : &variable->value;
}

const PythonPackage* find_package(const PythonEnvironment& python, std::string_view name) {
  return named(python.packages, name);
}

const Service* find_service(const Environment& environment, std::string_view name) {
  return named(environment.services, name);
}

}  // namespace gpuwarden::facts
