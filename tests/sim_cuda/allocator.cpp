// SPDX-License-Identifier: Apache-2.0
// A program that takes device memory in every way that `gpuwarden memory trace` looks for, without knowing of it. Its
// argument is its exit code.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "nvidia/cuda_functions.hpp"

namespace cuda = gpuwarden::cuda;

namespace {

void* library = nullptr;

void check(cuda::Result result, const char* what) {
  if (result == cuda::kSuccess) return;
  std::printf("%s: %d\n", what, result);
  std::exit(99);
}

template <class Function>
Function* by_name(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}
#define BY_NAME(function) by_name(static_cast<decltype(cuda::function)*>(nullptr), #function)

/// As libcudart does.
template <class Function>
Function* by_procedure(Function*, const char* name) {
  void* found = nullptr;
  check(BY_NAME(cuGetProcAddress_v2)(name, &found, 12000, 0, nullptr), name);
  return reinterpret_cast<Function*>(found);
}
#define BY_PROCEDURE(function, name) by_procedure(static_cast<decltype(cuda::function)*>(nullptr), name)

constexpr std::size_t kMiB = std::size_t{1} << 20U;

void take_pages() {
  cuda::AllocationProperties properties{};
  properties.type = 1;           // CU_MEM_ALLOCATION_TYPE_PINNED
  properties.location.type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  cuda::AllocationHandle handle = 0;
  cuda::DevicePointer place = 0;
  check(BY_NAME(cuMemCreate)(&handle, 8 * kMiB, &properties, 0), "cuMemCreate");
  check(BY_NAME(cuMemAddressReserve)(&place, 8 * kMiB, 0, 0, 0), "cuMemAddressReserve");
  check(BY_NAME(cuMemMap)(place, 8 * kMiB, 0, handle, 0), "cuMemMap");
  check(BY_NAME(cuMemRelease)(handle), "cuMemRelease");  // the mapping holds it
  check(BY_NAME(cuMemUnmap)(place, 8 * kMiB), "cuMemUnmap");
}

}  // namespace

int main(int count, char** arguments) {
  library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return std::puts("no libcuda.so.1"), 98;
  cuda::Context context = nullptr;
  check(BY_NAME(cuInit)(0), "cuInit");
  check(BY_NAME(cuDevicePrimaryCtxRetain)(&context, 0), "cuDevicePrimaryCtxRetain");
  check(BY_NAME(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
  cuda::DevicePointer first = 0;
  cuda::DevicePointer second = 0;
  cuda::DevicePointer third = 0;
  check(BY_NAME(cuMemAlloc_v2)(&first, 3 * kMiB), "cuMemAlloc_v2");
  check(BY_PROCEDURE(cuMemAlloc_v2, "cuMemAlloc")(&second, 5 * kMiB), "cuMemAlloc");
  check(BY_PROCEDURE(cuMemFree_v2, "cuMemFree")(first), "cuMemFree");
  cuda::Stream stream = nullptr;
  check(BY_NAME(cuStreamCreate)(&stream, 0), "cuStreamCreate");
  check(BY_NAME(cuMemAllocAsync)(&third, 7 * kMiB, stream), "cuMemAllocAsync");
  check(BY_PROCEDURE(cuMemFreeAsync, "cuMemFreeAsync")(third, stream), "cuMemFreeAsync");
  take_pages();
  std::printf("pid %d\n", static_cast<int>(::getpid()));
  return count > 1 ? std::atoi(arguments[1]) : 0;  // the second block stays
}
