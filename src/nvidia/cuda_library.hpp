// SPDX-License-Identifier: Apache-2.0
// Opens the CUDA driver's library and puts its errors into words, for all who call it: the deep test and the pool.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/text.hpp"
#include "nvidia/cuda_functions.hpp"

namespace gpuwarden::cuda {

/// All functions of the library by their symbols; those that its driver does not have are null.
struct Symbols {
#define GPUWARDEN_CUDA_FUNCTION(symbol, since, parameters) decltype(&cuda::symbol) symbol = nullptr;
#include "nvidia/cuda_functions.inc"
#undef GPUWARDEN_CUDA_FUNCTION
};

template <class F>
void find_symbol(void* handle, const char* symbol, F& function) {
  function = reinterpret_cast<F>(::dlsym(handle, symbol));
}

inline Symbols find_symbols(void* handle) {
  Symbols symbols;
#define GPUWARDEN_CUDA_FUNCTION(symbol, since, parameters) find_symbol(handle, #symbol, symbols.symbol);
#include "nvidia/cuda_functions.inc"
#undef GPUWARDEN_CUDA_FUNCTION
  return symbols;
}

/// The library's handle, for dlsym; it is never closed, since drivers do not bear that. not_found: it cannot be opened.
inline gpuwarden::Result<void*> open_library(const std::filesystem::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  if (!library.has_parent_path()) {
    // Where Windows puts it for its Linux guests; the loader does not always look there.
    handle = ::dlopen(("/usr/lib/wsl/lib" / library).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // once more, for its words
    if (handle != nullptr) return handle;
  }
  const char* why = ::dlerror();
  return fail(ErrorCode::not_found,
              fmt::format("CUDA's driver library cannot be opened: {}", why != nullptr ? why : library.string()),
              "install the NVIDIA driver's CUDA library; in a container, start it with --gpus all");
}

/// "CUDA_ERROR_OUT_OF_MEMORY" of 2; empty for a code that CUDA 13.0 does not have.
inline std::string_view name_of(Result code) {
  struct Row {
    Result code;
    std::string_view name;
  };
  static constexpr auto kRows = std::to_array<Row>({
#define GPUWARDEN_CUDA_ERROR(number, symbol, sentence) {number, #symbol},
#include "nvidia/cuda_errors.inc"
#undef GPUWARDEN_CUDA_ERROR
  });
  const auto* const found = std::ranges::find(kRows, code, &Row::code);
  return found != kRows.end() ? found->name : std::string_view();
}

/// "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory". The driver's own words; for drivers too broken to say
/// it themselves (and where the functions are null) the table's name.
inline std::string describe(decltype(&cuGetErrorName) ask_name, decltype(&cuGetErrorString) ask_text,
                            std::string_view what, Result code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (ask_name == nullptr || ask_name(code, &name) != kSuccess) name = nullptr;
  if (ask_text == nullptr || ask_text(code, &text) != kSuccess) text = nullptr;
  const std::string_view known = name_of(code);
  const std::string_view word = name != nullptr ? name : known.empty() ? "error of CUDA" : known;
  return printable(
      fmt::format("{}: {} ({}){}{}", what, word, code, text != nullptr ? ": " : "", text != nullptr ? text : ""));
}

/// Out of memory is unsatisfied, an exclusive or prohibited device permission_denied, no device not_found, all else
/// failed.
inline ErrorCode error_code_of(Result code) {
  switch (code) {
    case kNoDevice:
      return ErrorCode::not_found;
    case kOutOfMemory:
      return ErrorCode::unsatisfied;
    case kDevicesUnavailable:
      return ErrorCode::permission_denied;
    default:
      return ErrorCode::failed;
  }
}

/// "GPU-" and the bytes as NVML prints them. A MIG instance has bytes of its own, which NVML prints behind "MIG-".
inline std::string uuid_text(const Uuid& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

}  // namespace gpuwarden::cuda
