// SPDX-License-Identifier: Apache-2.0
// A program that knows nothing of a simulator: it opens libcuda.so.1 wherever the loader finds it, takes memory on the
// first device, and tells what it saw: "devices 2 free 15088 MiB", or why not.
#include <dlfcn.h>

#include <cstdio>

#include "nvidia/cuda_functions.hpp"

namespace cuda = gpuwarden::cuda;

int main() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return std::puts("no libcuda.so.1"), 2;
  const auto find = [&]<class Function>(Function*, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library, name));
  };
  const auto init = find(static_cast<decltype(cuda::cuInit)*>(nullptr), "cuInit");
  const auto count = find(static_cast<decltype(cuda::cuDeviceGetCount)*>(nullptr), "cuDeviceGetCount");
  const auto retain = find(static_cast<decltype(cuda::cuDevicePrimaryCtxRetain)*>(nullptr), "cuDevicePrimaryCtxRetain");
  const auto use = find(static_cast<decltype(cuda::cuCtxSetCurrent)*>(nullptr), "cuCtxSetCurrent");
  const auto allocate = find(static_cast<decltype(cuda::cuMemAlloc_v2)*>(nullptr), "cuMemAlloc_v2");
  const auto info = find(static_cast<decltype(cuda::cuMemGetInfo_v2)*>(nullptr), "cuMemGetInfo_v2");
  if (const int code = init(0); code != cuda::kSuccess) return std::printf("cuInit %d\n", code), 3;
  int devices = 0;
  cuda::Context context = nullptr;
  cuda::DevicePointer pointer = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  const bool worked = count(&devices) == cuda::kSuccess && retain(&context, 0) == cuda::kSuccess &&
                      use(context) == cuda::kSuccess && allocate(&pointer, std::size_t{1} << 30U) == cuda::kSuccess &&
                      info(&free, &total) == cuda::kSuccess;
  if (!worked) return std::puts("a call failed"), 4;
  std::printf("devices %d free %zu MiB\n", devices, free >> 20U);
  return 0;
}
