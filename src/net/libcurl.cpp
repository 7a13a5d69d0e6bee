// SPDX-License-Identifier: Apache-2.0
#include "net/libcurl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuwarden::net {

Result<LibCurl> open_libcurl(const char* file) {
  void* handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::unavailable, fmt::format("{} is not installed: nobody can be asked over HTTP", file),
                "install libcurl (Debian: libcurl4)");
  LibCurl functions;
  const char* missing = nullptr;
#define GPUWARDEN_CURL_LOAD(name)                                                              \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(handle, "curl_" #name)); \
  if (functions.name == nullptr) missing = "curl_" #name;
  GPUWARDEN_CURL_FUNCTIONS(GPUWARDEN_CURL_LOAD)
#undef GPUWARDEN_CURL_LOAD
  if (missing != nullptr)
    return fail(ErrorCode::unavailable, fmt::format("{} is too old: it has no {}", file, missing),
                "install libcurl 7.85 or later");
  return functions;
}

Result<const LibCurl*> libcurl() {
  static const Result<LibCurl> kLibrary = []() -> Result<LibCurl> {
    GPUWARDEN_TRY(LibCurl functions, open_libcurl(GPUWARDEN_LIBCURL));
    if (functions.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      return fail(ErrorCode::unavailable, fmt::format("{} cannot be set up", GPUWARDEN_LIBCURL));
    return functions;
  }();
  if (!kLibrary) return std::unexpected(kLibrary.error());
  return &*kLibrary;
}

}  // namespace gpuwarden::net
