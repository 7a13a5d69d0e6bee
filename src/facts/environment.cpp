// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/environment.hpp"

#include <algorithm>
#include <array>
#include <cctype>

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

}  // namespace

bool is_gathered_variable(std::string_view name) {
  const bool identifier = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return identifier && std::ranges::any_of(kVariables, [&](auto beginning) { return name.starts_with(beginning); }) &&
         std::ranges::none_of(kSecret, [&](auto word) { return name.contains(word); });
}

std::string_view to_string(ModuleFlavour flavour) { return flavour == ModuleFlavour::open ? "open" : "proprietary"; }

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
