// SPDX-License-Identifier: Apache-2.0
#include "deep/cuda_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::deep {

namespace {

/// For drivers too broken to say it themselves.
constexpr auto kNames = std::to_array<std::pair<cuda::Result, std::string_view>>({
    {cuda::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {cuda::kStubLibrary, "CUDA_ERROR_STUB_LIBRARY"},
    {cuda::kDevicesUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {cuda::kNoDevice, "CUDA_ERROR_NO_DEVICE"},
    {cuda::kEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {cuda::kSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY"},
    {cuda::kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {cuda::kCompatNotSupportedOnDevice, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
    {cuda::kUnknown, "CUDA_ERROR_UNKNOWN"},
});

/// "cuLaunchKernel" of "launch"; other words stay as they are.
std::string_view symbol_of(std::string_view role) {
#define GPUWARDEN_CUDA_ROLE(name, symbol) \
  if (role == #name) return #symbol;
#include "deep/cuda_functions.inc"
#undef GPUWARDEN_CUDA_ROLE
  return role;
}

ErrorCode code_of(cuda::Result code) {
  switch (code) {
    case cuda::kNoDevice:
      return ErrorCode::not_found;
    case cuda::kOutOfMemory:
      return ErrorCode::unsatisfied;
    case cuda::kDevicesUnavailable:
      return ErrorCode::permission_denied;
    default:
      return ErrorCode::failed;
  }
}

void* open_library(const std::filesystem::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr || library.has_parent_path()) return handle;
  // Where Windows puts it for its Linux guests; the loader does not always look there.
  handle = ::dlopen(("/usr/lib/wsl/lib" / library).c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle != nullptr ? handle : ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
}

template <class F>
void find(void* handle, const char* symbol, F& function) {
  function = reinterpret_cast<F>(::dlsym(handle, symbol));
}

/// The first function that the library has not, of those that must be there.
std::optional<std::string_view> first_missing(const cuda::Functions& cuda) {
#define GPUWARDEN_CUDA_OPTIONAL(name, symbol)
#define GPUWARDEN_CUDA_ROLE(name, symbol) \
  if (cuda.name == nullptr) return #symbol;
#include "deep/cuda_functions.inc"
#undef GPUWARDEN_CUDA_ROLE
  return std::nullopt;
}

}  // namespace

Result<cuda::Functions> open_cuda(const std::filesystem::path& library) {
  void* handle = open_library(library);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::not_found,
                fmt::format("CUDA's driver library cannot be opened: {}", why != nullptr ? why : library.string()),
                "install the NVIDIA driver's CUDA library; in a container, start it with --gpus all");
  }
  cuda::Functions functions;
#define GPUWARDEN_CUDA_ROLE(name, symbol) find(handle, #symbol, functions.name);
#include "deep/cuda_functions.inc"
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
  find(handle, "cublasCreate_v2", f.create);
  find(handle, "cublasSetStream_v2", f.set_stream);
  find(handle, "cublasGemmEx", f.multiply);
  if (f.create == nullptr || f.set_stream == nullptr || f.multiply == nullptr) return std::nullopt;
  return result;
}

Error cuda_error(const cuda::Functions& cuda, std::string_view what, cuda::Result code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuda.error_name == nullptr || cuda.error_name(code, &name) != cuda::kSuccess) name = nullptr;
  if (cuda.error_string == nullptr || cuda.error_string(code, &text) != cuda::kSuccess) text = nullptr;
  const auto* const known = std::ranges::find(kNames, code, &decltype(kNames)::value_type::first);
  const std::string_view word = name != nullptr ? name : known != kNames.end() ? known->second : "error of CUDA";
  return {code_of(code),
          printable(fmt::format("{}: {} ({}){}{}", symbol_of(what), word, code, text != nullptr ? ": " : "",
                                text != nullptr ? text : "")),
          ""};
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

}  // namespace gpuwarden::deep
