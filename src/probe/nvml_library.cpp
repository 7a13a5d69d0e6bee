// SPDX-License-Identifier: Apache-2.0
#include "probe/nvml_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuwarden::probe {
namespace {

void* open_library(const std::filesystem::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr || library.has_parent_path()) return handle;
  // Where Windows puts it for its Linux guests; the loader does not always look there.
  handle = ::dlopen(("/usr/lib/wsl/lib" / library).c_str(), RTLD_NOW | RTLD_LOCAL);
  // The first failure is the one to tell of.
  return handle != nullptr ? handle : ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Result<nvml::Functions> open_nvml(const std::filesystem::path& library) {
  void* handle = open_library(library);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(
        ErrorCode::unavailable,
        fmt::format("NVIDIA's management library cannot be opened: {}", why != nullptr ? why : library.string()),
        "install the NVIDIA driver (Debian: apt install nvidia-driver); in a container, start it with the NVIDIA "
        "container toolkit (--gpus all)");
  }
  nvml::Functions functions;
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters) \
  functions.symbol = reinterpret_cast<decltype(functions.symbol)>(::dlsym(handle, #symbol));
#include "nvidia/nvml_functions.inc"
  if (functions.nvmlInit_v2 == nullptr && functions.nvmlInit == nullptr) {
    return fail(ErrorCode::unavailable, fmt::format("{} is not NVIDIA's management library", library.string()),
                "reinstall the NVIDIA driver");
  }
  return functions;
}

}  // namespace gpuwarden::probe
