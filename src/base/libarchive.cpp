// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/libarchive.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuwarden::libarchive {
namespace {

/// The name that programs built against these headers would be linked with.
constexpr const char* kLibrary = GPUWARDEN_LIBARCHIVE;

/// Opened once and never closed: the functions' addresses stay valid.
void* library() {
  static void* const kHandle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  return kHandle;
}

}  // namespace

void* function(const char* name) { return library() != nullptr ? ::dlsym(library(), name) : nullptr; }

Result<void> open() {
  if (library() != nullptr) return {};
  return fail(ErrorCode::unavailable, fmt::format("{} is not installed: archives cannot be read or written", kLibrary),
              "install libarchive (Debian: libarchive13)");
}

}  // namespace gpuwarden::libarchive
