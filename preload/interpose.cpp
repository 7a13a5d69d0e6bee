// SPDX-License-Identifier: Apache-2.0
// Stands before the functions of libcuda and libcudart that allocate and free device memory, wherever a program gets
// them from: linked, by dlsym, or by cuGetProcAddress (as libcudart does). Each calls the true function and notes what
// came of it. Calls that the runtime makes of the driver on the way are noted once.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <string_view>

#include "nvidia/cuda_abi.hpp"
#include "trace_log.hpp"

#define EXPORTED extern "C" [[gnu::visibility("default")]]

namespace gpuwarden::preload {
namespace {

using cuda::AllocationHandle;
using cuda::AllocationProperties;
using cuda::DevicePointer;
using cuda::MemoryPool;
using cuda::Result;
using cuda::Stream;

using Dlsym = void* (*)(void*, const char*) noexcept;

/// glibc's own dlsym. Its version differs between glibc's ages and machines.
Dlsym true_dlsym() {
  static std::atomic<Dlsym> known = nullptr;
  Dlsym found = known.load(std::memory_order_relaxed);
  if (found != nullptr) return found;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.0"}) {
    found = reinterpret_cast<Dlsym>(::dlvsym(RTLD_NEXT, "dlsym", version));
    if (found != nullptr) break;
  }
  known.store(found, std::memory_order_relaxed);
  return found;
}

/// Within a function of ours: what the true one calls is part of it.
thread_local int depth = 0;
class Inside {
 public:
  Inside() { ++depth; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --depth; }
  static bool is_outermost() { return depth == 1; }
};

constexpr Result kNotInitialized = 3;  // CUDA_ERROR_NOT_INITIALIZED, cudaErrorInitializationError
/// What a null stream means to the functions with _ptsz (CU_STREAM_PER_THREAD).
constexpr std::uint64_t kPerThread = 2;

/// One function: its name, ours, and the true one once it is known.
struct Target {
  const char* name;
  void* ours;
  std::atomic<void*> truth = nullptr;
};

void* find_truth(const char* name, const void* ours) {
  void* found = true_dlsym()(RTLD_NEXT, name);
  if (found != nullptr && found != ours) return found;
  for (const char* library : {"libcuda.so.1", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    void* const handle = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    found = true_dlsym()(handle, name);
    ::dlclose(handle);
    if (found != nullptr && found != ours) return found;
  }
  return nullptr;
}

template <class... Arguments>
Result call(Target& target, Arguments... arguments) {
  void* truth = target.truth.load(std::memory_order_acquire);
  if (truth == nullptr) {
    truth = find_truth(target.name, target.ours);
    target.truth.store(truth, std::memory_order_release);
  }
  if (truth == nullptr) return kNotInitialized;
  return reinterpret_cast<Result (*)(Arguments...)>(truth)(arguments...);
}

int current_device() {
  static std::atomic<void*> known = nullptr;
  void* found = known.load(std::memory_order_relaxed);
  if (found == nullptr) known.store(found = find_truth("cuCtxGetDevice", nullptr), std::memory_order_relaxed);
  int device = 0;
  if (found == nullptr || reinterpret_cast<Result (*)(int*)>(found)(&device) != cuda::kSuccess) return 0;
  return device;
}

std::uint64_t number_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Calls the true function, then notes what it gave out at `address`.
template <class Address, class... Arguments>
Result allocate(Target& target, Address* address, std::size_t size, std::uint64_t stream, Arguments... arguments) {
  const Inside inside;
  const Result result = call(target, address, arguments...);
  if (result != cuda::kSuccess || address == nullptr || !Inside::is_outermost()) return result;
  std::uint64_t given = 0;
  static_assert(sizeof(*address) == sizeof(given));
  std::memcpy(&given, address, sizeof(given));
  if (given != 0) note_allocation(given, size, stream, current_device());
  return result;
}

/// Takes it out of the books first, because its address may be given out again before this returns.
template <class Address, class... Arguments>
Result free(Target& target, Address address, std::uint64_t stream, Arguments... arguments) {
  const Inside inside;
  std::uint64_t given = 0;
  static_assert(sizeof(address) == sizeof(given));
  std::memcpy(&given, &address, sizeof(given));
  const auto noted = Inside::is_outermost() && given != 0 ? forget(given) : std::nullopt;
  const Result result = call(target, address, arguments...);
  if (!noted) return result;
  if (result == cuda::kSuccess)
    note_free(*noted, stream);
  else
    remember(given, *noted);
  return result;
}

std::uint64_t or_per_thread(const void* stream) { return stream == nullptr ? kPerThread : number_of(stream); }

}  // namespace

extern Target targets[];
Target* target_of(std::string_view name);

#define TARGET(function) static Target& target = *target_of(#function)

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's.
// The driver.
EXPORTED Result cuMemAlloc_v2(DevicePointer* address, std::size_t size) {
  TARGET(cuMemAlloc_v2);
  return allocate(target, address, size, 0, size);
}
EXPORTED Result cuMemAllocManaged(DevicePointer* address, std::size_t size, unsigned flags) {
  TARGET(cuMemAllocManaged);
  return allocate(target, address, size, 0, size, flags);
}
EXPORTED Result cuMemAllocPitch_v2(DevicePointer* address, std::size_t* pitch, std::size_t width, std::size_t height,
                                   unsigned element) {
  TARGET(cuMemAllocPitch_v2);
  const Inside inside;
  const Result result = call(target, address, pitch, width, height, element);
  if (result == cuda::kSuccess && Inside::is_outermost())
    note_allocation(*address, *pitch * height, 0, current_device());
  return result;
}
EXPORTED Result cuMemFree_v2(DevicePointer address) {
  TARGET(cuMemFree_v2);
  return free(target, address, 0);
}
EXPORTED Result cuMemAllocAsync(DevicePointer* address, std::size_t size, Stream stream) {
  TARGET(cuMemAllocAsync);
  return allocate(target, address, size, number_of(stream), size, stream);
}
EXPORTED Result cuMemAllocAsync_ptsz(DevicePointer* address, std::size_t size, Stream stream) {
  TARGET(cuMemAllocAsync_ptsz);
  return allocate(target, address, size, or_per_thread(stream), size, stream);
}
EXPORTED Result cuMemAllocFromPoolAsync(DevicePointer* address, std::size_t size, MemoryPool pool, Stream stream) {
  TARGET(cuMemAllocFromPoolAsync);
  return allocate(target, address, size, number_of(stream), size, pool, stream);
}
EXPORTED Result cuMemAllocFromPoolAsync_ptsz(DevicePointer* address, std::size_t size, MemoryPool pool, Stream stream) {
  TARGET(cuMemAllocFromPoolAsync_ptsz);
  return allocate(target, address, size, or_per_thread(stream), size, pool, stream);
}
EXPORTED Result cuMemFreeAsync(DevicePointer address, Stream stream) {
  TARGET(cuMemFreeAsync);
  return free(target, address, number_of(stream), stream);
}
EXPORTED Result cuMemFreeAsync_ptsz(DevicePointer address, Stream stream) {
  TARGET(cuMemFreeAsync_ptsz);
  return free(target, address, or_per_thread(stream), stream);
}
EXPORTED Result cuMemCreate(AllocationHandle* handle, std::size_t size, const AllocationProperties* properties,
                            unsigned long long flags) {
  TARGET(cuMemCreate);
  const Inside inside;
  const Result result = call(target, handle, size, properties, flags);
  if (result == cuda::kSuccess && Inside::is_outermost()) note_handle(*handle, size, properties->location.id);
  return result;
}
EXPORTED Result cuMemRelease(AllocationHandle handle) {
  TARGET(cuMemRelease);
  const Inside inside;
  const Result result = call(target, handle);
  if (result == cuda::kSuccess && Inside::is_outermost()) note_handle_released(handle);
  return result;
}
EXPORTED Result cuMemMap(DevicePointer address, std::size_t size, std::size_t offset, AllocationHandle handle,
                         unsigned long long flags) {
  TARGET(cuMemMap);
  const Inside inside;
  const Result result = call(target, address, size, offset, handle, flags);
  if (result == cuda::kSuccess && Inside::is_outermost()) note_handle_used(handle, address, size);
  return result;
}
EXPORTED Result cuMemUnmap(DevicePointer address, std::size_t size) {
  TARGET(cuMemUnmap);
  const Inside inside;
  const Result result = call(target, address, size);
  if (result == cuda::kSuccess && Inside::is_outermost()) note_unmapped(address, size);
  return result;
}

// The runtime.
EXPORTED Result cudaMalloc(void** address, std::size_t size) {
  TARGET(cudaMalloc);
  return allocate(target, address, size, 0, size);
}
EXPORTED Result cudaMallocManaged(void** address, std::size_t size, unsigned flags) {
  TARGET(cudaMallocManaged);
  return allocate(target, address, size, 0, size, flags);
}
EXPORTED Result cudaMallocPitch(void** address, std::size_t* pitch, std::size_t width, std::size_t height) {
  TARGET(cudaMallocPitch);
  const Inside inside;
  const Result result = call(target, address, pitch, width, height);
  if (result == cuda::kSuccess && Inside::is_outermost())
    note_allocation(number_of(*address), *pitch * height, 0, current_device());
  return result;
}
EXPORTED Result cudaFree(void* address) {
  TARGET(cudaFree);
  return free(target, address, 0);
}
EXPORTED Result cudaMallocAsync(void** address, std::size_t size, Stream stream) {
  TARGET(cudaMallocAsync);
  return allocate(target, address, size, number_of(stream), size, stream);
}
EXPORTED Result cudaMallocAsync_ptsz(void** address, std::size_t size, Stream stream) {
  TARGET(cudaMallocAsync_ptsz);
  return allocate(target, address, size, or_per_thread(stream), size, stream);
}
EXPORTED Result cudaMallocFromPoolAsync(void** address, std::size_t size, MemoryPool pool, Stream stream) {
  TARGET(cudaMallocFromPoolAsync);
  return allocate(target, address, size, number_of(stream), size, pool, stream);
}
EXPORTED Result cudaMallocFromPoolAsync_ptsz(void** address, std::size_t size, MemoryPool pool, Stream stream) {
  TARGET(cudaMallocFromPoolAsync_ptsz);
  return allocate(target, address, size, or_per_thread(stream), size, pool, stream);
}
EXPORTED Result cudaFreeAsync(void* address, Stream stream) {
  TARGET(cudaFreeAsync);
  return free(target, address, number_of(stream), stream);
}
EXPORTED Result cudaFreeAsync_ptsz(void* address, Stream stream) {
  TARGET(cudaFreeAsync_ptsz);
  return free(target, address, or_per_thread(stream), stream);
}

EXPORTED Result cuGetProcAddress(const char* symbol, void** found, int version, std::uint64_t flags);
EXPORTED Result cuGetProcAddress_v2(const char* symbol, void** found, int version, std::uint64_t flags, int* status);
// NOLINTEND(readability-identifier-naming)

#define ROW(function) {#function, reinterpret_cast<void*>(&function)}
Target targets[] = {
    ROW(cuMemAlloc_v2),
    ROW(cuMemAllocManaged),
    ROW(cuMemAllocPitch_v2),
    ROW(cuMemFree_v2),
    ROW(cuMemAllocAsync),
    ROW(cuMemAllocAsync_ptsz),
    ROW(cuMemAllocFromPoolAsync),
    ROW(cuMemAllocFromPoolAsync_ptsz),
    ROW(cuMemFreeAsync),
    ROW(cuMemFreeAsync_ptsz),
    ROW(cuMemCreate),
    ROW(cuMemRelease),
    ROW(cuMemMap),
    ROW(cuMemUnmap),
    ROW(cudaMalloc),
    ROW(cudaMallocManaged),
    ROW(cudaMallocPitch),
    ROW(cudaFree),
    ROW(cudaMallocAsync),
    ROW(cudaMallocAsync_ptsz),
    ROW(cudaMallocFromPoolAsync),
    ROW(cudaMallocFromPoolAsync_ptsz),
    ROW(cudaFreeAsync),
    ROW(cudaFreeAsync_ptsz),
    ROW(cuGetProcAddress),
    ROW(cuGetProcAddress_v2),
};

Target* target_of(std::string_view name) {
  for (Target& target : targets) {
    if (name == std::string_view(target.name)) return &target;
  }
  return nullptr;
}

namespace {

/// Ours instead of what was found for a name; what was found where we have none.
void* replaced(Target* target, void* found) {
  if (target == nullptr || found == nullptr) return found;
  if (found != target->ours) target->truth.store(found, std::memory_order_release);
  return target->ours;
}

/// cuGetProcAddress knows names without a version: from CUDA 3.2 on "cuMemAlloc" is cuMemAlloc_v2.
Target* target_of_procedure(const char* symbol, int version, std::uint64_t flags) {
  constexpr int kVersions = 3020;
  constexpr std::uint64_t kPerThreadStreams = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
  char name[128];
  const std::size_t size = std::strlen(symbol);
  if (version < kVersions || size + 8 > sizeof(name)) return nullptr;
  std::memcpy(name, symbol, size + 1);
  if ((flags & kPerThreadStreams) != 0) {
    std::strcpy(name + size, "_ptsz");
    if (Target* const target = target_of(name)) return target;
  }
  std::strcpy(name + size, "_v2");
  // A program that asks for cuGetProcAddress itself gets what its version knows.
  const bool itself = std::strcmp(symbol, "cuGetProcAddress") == 0;
  if (itself && version < 12000) return target_of(symbol);
  if (Target* const target = target_of(name)) return target;
  return target_of(symbol);
}

}  // namespace

EXPORTED Result cuGetProcAddress(const char* symbol, void** found, int version, std::uint64_t flags) {
  TARGET(cuGetProcAddress);
  const Result result = call(target, symbol, found, version, flags);
  if (result == cuda::kSuccess && symbol != nullptr && found != nullptr)
    *found = replaced(target_of_procedure(symbol, version, flags), *found);
  return result;
}

EXPORTED Result cuGetProcAddress_v2(const char* symbol, void** found, int version, std::uint64_t flags, int* status) {
  TARGET(cuGetProcAddress_v2);
  const Result result = call(target, symbol, found, version, flags, status);
  if (result == cuda::kSuccess && symbol != nullptr && found != nullptr)
    *found = replaced(target_of_procedure(symbol, version, flags), *found);
  return result;
}

[[gnu::noinline]] static void* find_replaced(Target* target, void* handle, const char* name) {
  return replaced(target, true_dlsym()(handle, name));
}

EXPORTED void* dlsym(void* handle, const char* name) noexcept {
  const bool perhaps = name[0] == 'c' && name[1] == 'u';
  Target* const target = perhaps ? target_of(name) : nullptr;
  if (target != nullptr) return find_replaced(target, handle, name);
  // Passed on by a jump: with RTLD_NEXT it matters who called.
  return true_dlsym()(handle, name);
}

}  // namespace gpuwarden::preload
