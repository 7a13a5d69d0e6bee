// SPDX-License-Identifier: Apache-2.0
#include "probe/nvml_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "gpuwarden/base/text.hpp"

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

/// The first of the functions without which nothing can be read; empty where all are there.
std::string missing_function(const nvml::Functions& functions) {
  if (functions.nvmlInit_v2 == nullptr && functions.nvmlInit == nullptr) return "nvmlInit_v2";
  if (functions.nvmlDeviceGetCount_v2 == nullptr && functions.nvmlDeviceGetCount == nullptr)
    return "nvmlDeviceGetCount_v2";
  if (functions.nvmlDeviceGetHandleByIndex_v2 == nullptr && functions.nvmlDeviceGetHandleByIndex == nullptr)
    return "nvmlDeviceGetHandleByIndex_v2";
  return "";
}

}  // namespace

std::expected<nvml::Functions, facts::DriverProblem> open_nvml(const std::filesystem::path& library) {
  using Kind = facts::DriverProblem::Kind;
  void* handle = open_library(library);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return std::unexpected(facts::DriverProblem(
        Kind::no_library,
        {ErrorCode::unavailable,
         fmt::format("NVIDIA's management library cannot be opened: {}",
                     printable(why != nullptr ? std::string(why) : library.string())),
         "install the NVIDIA driver (Debian: apt install nvidia-driver); in a container, start it with the NVIDIA "
         "container toolkit (--gpus all)"}));
  }
  nvml::Functions functions;
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters) \
  functions.symbol = reinterpret_cast<decltype(functions.symbol)>(::dlsym(handle, #symbol));
#include "nvidia/nvml_functions.inc"
  const std::string missing = missing_function(functions);
  if (missing.empty()) return functions;
  return std::unexpected(facts::DriverProblem(
      Kind::wrong_library, {ErrorCode::unavailable,
                            fmt::format("{} is not NVIDIA's management library, or too old a one: it has no {}",
                                        printable(library.string()), missing),
                            "reinstall the NVIDIA driver"}));
}

}  // namespace gpuwarden::probe
