// SPDX-License-Identifier: Apache-2.0
#include "burn_in/cuda_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "nvidia/cuda_library.hpp"

namespace gpuwarden::burn_in {

namespace {

/// "cuLaunchKernel" of "launch"; other words stay as they are.
std::string_view symbol_of(std::string_view role) {
#define GPUWARDEN_CUDA_ROLE(name, symbol) \
  if (role == #name) return #symbol;
#include "burn_in/cuda_functions.inc"
#undef GPUWARDEN_CUDA_ROLE
  return role;
}

/// The first function that the library has not, of those that must be there.
std::optional<std::string_view> first_missing(const cuda::Functions& cuda) {
#define GPUWARDEN_CUDA_OPTIONAL(name, symbol)
#define GPUWARDEN_CUDA_ROLE(name, symbol) \
  if (cuda.name == nullptr) return #symbol;
#include "burn_in/cuda_functions.inc"
#undef GPUWARDEN_CUDA_ROLE
  return std::nullopt;
}

}  // namespace

Result<cuda::Functions> open_cuda(const std::filesystem::path& library) {
  GPUWARDEN_TRY(void* const handle, cuda::open_library(library));
  cuda::Functions functions;
#define GPUWARDEN_CUDA_ROLE(name, symbol) cuda::find_symbol(handle, #symbol, functions.name);
#include "burn_in/cuda_functions.inc"
#undef GPUWARDEN_CUDA_ROLE
  if (const auto missing = first_missing(functions))
    return fail(ErrorCode::unavailable, fmt::format("{} has no {}: it is not CUDA's driver library, or too old a one",
                                                    library.string(), *missing));
  return functions;
}

std::optional<Cublas> open_cublas(const std::filesystem::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  Cublas result{library.filename().string(), {}};
  auto& f = result.functions;
  cuda::find_symbol(handle, "cublasCreate_v2", f.create);
  cuda::find_symbol(handle, "cublasSetStream_v2", f.set_stream);
  cuda::find_symbol(handle, "cublasGemmEx", f.multiply);
  if (f.create == nullptr || f.set_stream == nullptr || f.multiply == nullptr) return std::nullopt;
  return result;
}

Error cuda_error(const cuda::Functions& cuda, std::string_view what, cuda::Result code) {
  return {cuda::error_code_of(code), cuda::describe(cuda.error_name, cuda.error_string, symbol_of(what), code), ""};
}

std::vector<std::string> next_steps(cuda::Result code) {
  switch (code) {
    case cuda::kStubLibrary:
      return {"take the toolkit's lib64/stubs out of LD_LIBRARY_PATH: it hides the driver's libcuda.so.1"};
    case cuda::kDevicesUnavailable:
      return {"gpuwarden list --processes   # who holds the GPU in exclusive mode"};
    case cuda::kSystemNotReady:
      return {"sudo systemctl restart nvidia-fabricmanager", "nvidia-smi -q | grep -A4 Fabric"};
    case cuda::kSystemDriverMismatch:
      return {"sudo reboot", "if it stays: take cuda-compat out of LD_LIBRARY_PATH"};
    case cuda::kCompatNotSupportedOnDevice:
      return {"take cuda-compat out of LD_LIBRARY_PATH: this GPU does not support it"};
    case cuda::kUnknown:
      return {"sudo dmesg | grep -i nvrm", "sudo modprobe nvidia_uvm",
              "in a container: restart it, it has lost its "
              "devices"};
    default:
      return {"sudo dmesg | grep -i nvrm"};
  }
}

}  // namespace gpuwarden::burn_in
