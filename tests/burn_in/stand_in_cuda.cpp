// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda and libcublas: host memory stands for device memory, kernels are known by their names and
// carried out on the host, and time is not taken but made up from the rates that the variable names. Faults:
//
//   GPUWARDEN_STAND_IN_CUDA="memory=64;stuck=4096:3;fail=cuLaunchKernel:719"
//
//   devices=N  uuids=GPU-...,GPU-...  bus=0000:17:00.0,...  name=TEXT  capability=90  sms=4
//   memory=MIB  free=MIB  piece=MIB (larger allocations fail)  host=MIB (pinned likewise)
//   h2d= d2h= d2d= p2p= (GB/s)  peers=0 (no access to one another)  fp32= tensor= gemm= (TFLOPS)
//   init=CODE  fail=FUNCTION:CODE  hang=FUNCTION  crash=FUNCTION  ptx=CODE  cublas=STATUS
//   flip=OFFSET:BIT  stuck=OFFSET:BIT (in every filled piece)  wrong=N
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "burn_in/kernels.hpp"
#include "nvidia/cuda_abi.hpp"

namespace {

using namespace gpuwarden;

std::map<std::string, std::string> read_settings() {
  std::map<std::string, std::string> settings;
  const char* text = std::getenv("GPUWARDEN_STAND_IN_CUDA");
  std::istringstream stream(text != nullptr ? text : "");
  for (std::string entry; std::getline(stream, entry, ';');) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) settings[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return settings;
}

const std::string* setting(const std::string& key) {
  static const auto kSettings = read_settings();
  const auto found = kSettings.find(key);
  return found == kSettings.end() ? nullptr : &found->second;
}

double number(const std::string& key, double otherwise) {
  const std::string* text = setting(key);
  return text == nullptr ? otherwise : std::strtod(text->c_str(), nullptr);
}

std::string entry_of(const std::string& key, int which, const std::string& otherwise) {
  const std::string* text = setting(key);
  std::istringstream stream(text != nullptr ? *text : "");
  std::string entry;
  for (int i = 0; i <= which; ++i) {
    if (!std::getline(stream, entry, ',')) return otherwise;
  }
  return entry;
}

/// The fault that is wanted of a function; 0 for none.
cuda::Result enter(const std::string& function) {
  if (const auto* hang = setting("hang"); hang != nullptr && *hang == function) {
    for (;;) ::pause();
  }
  if (const auto* crash = setting("crash"); crash != nullptr && *crash == function) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would end the process in another way
    std::raise(SIGSEGV);
  }
  const auto* fail = setting("fail");
  if (fail == nullptr || !fail->starts_with(function + ":")) return cuda::kSuccess;
  return std::atoi(fail->c_str() + function.size() + 1);
}

std::size_t mebibytes(const std::string& key, double otherwise) {
  return static_cast<std::size_t>(number(key, otherwise)) << 20U;
}

std::size_t used = 0;
std::map<void*, std::size_t> blocks;
double now_ms = 0;  ///< the GPU's made-up clock

std::size_t free_memory() {
  const std::size_t all = setting("free") != nullptr ? mebibytes("free", 0) : mebibytes("memory", 64);
  return all - std::min(all, used);
}

void spend(double amount, double per_second) { now_ms += 1e3 * amount / per_second; }

/// The ordinals that CUDA_VISIBLE_DEVICES leaves.
std::vector<int> visible() {
  std::vector<int> all;
  const int count = static_cast<int>(number("devices", 1));
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) all.push_back(i);
    return all;
  }
  std::istringstream stream(text);
  for (std::string entry; std::getline(stream, entry, ',');) {
    const int ordinal = std::atoi(entry.c_str());
    if (ordinal < 0 || ordinal >= count) break;
    all.push_back(ordinal);
  }
  return all;
}

template <class T>
T argument(void** arguments, int which) {
  T value;
  std::memcpy(&value, arguments[which], sizeof value);
  return value;
}

struct Place {
  std::size_t offset = 0;
  unsigned bit = 0;
};
bool place(const std::string& key, Place& place) {
  const auto* text = setting(key);
  if (text == nullptr) return false;
  char* end = nullptr;
  place.offset = std::strtoull(text->c_str(), &end, 0);
  place.bit = static_cast<unsigned>(std::strtoul(end + 1, nullptr, 0));
  return true;
}

void spoil(std::uint64_t* words, std::size_t count) {
  Place at;
  if (place("flip", at) && at.offset / 8 < count) words[at.offset / 8] ^= std::uint64_t{1} << at.bit;
  if (place("stuck", at) && at.offset / 8 < count) words[at.offset / 8] |= std::uint64_t{1} << at.bit;
}

void fill(void** arguments) {
  auto* words = reinterpret_cast<std::uint64_t*>(argument<unsigned long long>(arguments, 0));
  const auto count = argument<unsigned long long>(arguments, 1);
  const auto keep = argument<unsigned long long>(arguments, 2);
  const auto flip = argument<unsigned long long>(arguments, 3);
  const bool scramble = argument<unsigned>(arguments, 4) != 0;
  for (std::size_t i = 0; i < count; ++i)
    words[i] = burn_in::pattern_word(reinterpret_cast<std::uintptr_t>(words + i), keep, flip, scramble);
  spoil(words, count);
}

void check(void** arguments) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(argument<unsigned long long>(arguments, 0));
  const auto count = argument<unsigned long long>(arguments, 1);
  const auto keep = argument<unsigned long long>(arguments, 2);
  const auto flip = argument<unsigned long long>(arguments, 3);
  const bool scramble = argument<unsigned>(arguments, 4) != 0;
  auto* report = reinterpret_cast<std::uint64_t*>(argument<unsigned long long>(arguments, 5));
  const auto room = argument<unsigned long long>(arguments, 6);
  for (std::size_t i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(words + i);
    const auto expected = burn_in::pattern_word(address, keep, flip, scramble);
    if (words[i] == expected) continue;
    const auto slot = report[0]++;
    if (slot >= room) continue;
    report[1 + 3 * slot] = address;
    report[2 + 3 * slot] = expected;
    report[3 + 3 * slot] = words[i];
  }
}

/// Floating-point operations of one thread in one step of one chain.
double operations(const std::string& kernel) {
  if (kernel == burn_in::kFma) return 2;
  if (kernel == burn_in::kMmaBf16) return 2.0 * 16 * 8 * 16 / 32;
  return kernel == burn_in::kMmaF16 ? 2.0 * 16 * 8 * 8 / 32 : 4 * 2.0 * 8 * 8 * 4 / 32;
}

void add_up(const std::string& kernel, double threads, void** arguments) {
  *reinterpret_cast<std::uint64_t*>(argument<unsigned long long>(arguments, 0)) +=
      static_cast<std::uint64_t>(number("wrong", 0));
  const double steps = argument<unsigned>(arguments, 1) * double{burn_in::kChains} * burn_in::kSteps;
  spend(operations(kernel) * steps * threads,
        1e12 * (kernel == burn_in::kFma ? number("fp32", 60) : number("tensor", 550)));
}

cuda::Result give(void** pointer, std::size_t bytes, std::size_t most) {
  if (bytes > most) return cuda::kOutOfMemory;
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *pointer == nullptr ? cuda::kOutOfMemory : cuda::kSuccess;
}

}  // namespace

#define ENTER(function) \
  if (const cuda::Result fault = enter(function); fault != 0) return fault

extern "C" {

cuda::Result cuInit(unsigned) {
  ENTER("cuInit");
  if (const int code = static_cast<int>(number("init", 0)); code != 0) return code;
  return visible().empty() ? cuda::kNoDevice : cuda::kSuccess;
}
cuda::Result cuDriverGetVersion(int* version) { return *version = 12040, cuda::kSuccess; }
cuda::Result cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  return *count = static_cast<int>(visible().size()), cuda::kSuccess;
}
cuda::Result cuDeviceGet(cuda::Device* device, int ordinal) {
  return *device = visible().at(static_cast<std::size_t>(ordinal)), cuda::kSuccess;
}
cuda::Result cuDeviceGetName(char* name, int size, cuda::Device) {
  std::strncpy(name, setting("name") != nullptr ? setting("name")->c_str() : "NVIDIA H100 80GB HBM3",
               static_cast<std::size_t>(size) - 1);
  return cuda::kSuccess;
}
cuda::Result cuDeviceGetAttribute(int* value, int which, cuda::Device) {
  const int capability = static_cast<int>(number("capability", 90));
  *value = which == cuda::kMultiprocessorCount ? static_cast<int>(number("sms", 4))
           : which == cuda::kCapabilityMajor   ? capability / 10
                                               : capability % 10;
  return cuda::kSuccess;
}
cuda::Result cuDeviceGetPCIBusId(char* text, int size, cuda::Device device) {
  std::strncpy(text, entry_of("bus", device, "0000:17:00.0").c_str(), static_cast<std::size_t>(size) - 1);
  return cuda::kSuccess;
}
cuda::Result cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::Device device) {
  std::string digits = entry_of("uuids", device, "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(device));
  digits = digits.substr(digits.find('-'));
  std::erase(digits, '-');
  for (std::size_t i = 0; i < 16 && 2 * i + 2 <= digits.size(); ++i)
    uuid->bytes[i] = static_cast<unsigned char>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
  return cuda::kSuccess;
}
cuda::Result cuGetErrorName(cuda::Result code, const char** name) {
  static const std::map<int, const char*> kNames{
      {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = kNames.find(code);
  if (found == kNames.end()) return 1;
  return *name = found->second, cuda::kSuccess;
}
cuda::Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Device) {
  ENTER("cuDevicePrimaryCtxRetain");
  return *context = reinterpret_cast<cuda::Context>(&used), cuda::kSuccess;
}
cuda::Result cuCtxSetCurrent(cuda::Context) { return cuda::kSuccess; }
cuda::Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = free_memory();
  *total = mebibytes("memory", 64);
  return cuda::kSuccess;
}
cuda::Result cuMemAlloc_v2(cuda::DevicePointer* pointer, std::size_t bytes) {
  ENTER("cuMemAlloc_v2");
  void* memory = nullptr;
  const cuda::Result code = give(&memory, bytes, std::min(free_memory(), mebibytes("piece", 1 << 20)));
  if (code != cuda::kSuccess) return code;
  used += bytes;
  blocks[memory] = bytes;
  *pointer = reinterpret_cast<cuda::DevicePointer>(memory);
  return cuda::kSuccess;
}
cuda::Result cuMemFree_v2(cuda::DevicePointer pointer) {
  void* memory = reinterpret_cast<void*>(pointer);
  used -= blocks[memory];
  blocks.erase(memory);
  std::free(memory);
  return cuda::kSuccess;
}
cuda::Result cuMemAllocHost_v2(void** pointer, std::size_t bytes) {
  ENTER("cuMemAllocHost_v2");
  return give(pointer, bytes, mebibytes("host", 1 << 20));
}
cuda::Result cuMemFreeHost(void* pointer) { return std::free(pointer), cuda::kSuccess; }
cuda::Result cuMemsetD8Async(cuda::DevicePointer pointer, unsigned char value, std::size_t bytes, cuda::Stream) {
  return std::memset(reinterpret_cast<void*>(pointer), value, bytes), cuda::kSuccess;
}
cuda::Result cuMemcpyHtoDAsync_v2(cuda::DevicePointer to, const void* from, std::size_t bytes, cuda::Stream) {
  ENTER("cuMemcpyHtoDAsync_v2");
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return spend(static_cast<double>(bytes), 1e9 * number("h2d", 50)), cuda::kSuccess;
}
cuda::Result cuMemcpyDtoHAsync_v2(void* to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return spend(static_cast<double>(bytes), 1e9 * number("d2h", 50)), cuda::kSuccess;
}
cuda::Result cuMemcpyDtoDAsync_v2(cuda::DevicePointer to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return spend(2.0 * static_cast<double>(bytes), 1e9 * number("d2d", 2900)), cuda::kSuccess;
}
cuda::Result cuDeviceCanAccessPeer(int* can, cuda::Device, cuda::Device) {
  return *can = number("peers", 1) != 0 ? 1 : 0, cuda::kSuccess;
}
cuda::Result cuCtxEnablePeerAccess(cuda::Context, unsigned) {
  ENTER("cuCtxEnablePeerAccess");
  static bool enabled = false;
  return std::exchange(enabled, true) ? cuda::kPeerAccessAlreadyEnabled : cuda::kSuccess;
}
cuda::Result cuMemcpyPeerAsync(cuda::DevicePointer to, cuda::Context, cuda::DevicePointer from, cuda::Context,
                               std::size_t bytes, cuda::Stream) {
  ENTER("cuMemcpyPeerAsync");
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return spend(static_cast<double>(bytes), 1e9 * number("p2p", 400)), cuda::kSuccess;
}
cuda::Result cuStreamCreate(cuda::Stream* stream, unsigned) {
  return *stream = reinterpret_cast<cuda::Stream>(&now_ms), cuda::kSuccess;
}
cuda::Result cuStreamSynchronize(cuda::Stream) {
  ENTER("cuStreamSynchronize");
  return cuda::kSuccess;
}
cuda::Result cuEventCreate(cuda::Event* event, unsigned) {
  return *event = reinterpret_cast<cuda::Event>(new double(0)), cuda::kSuccess;  // ends with the process
}
cuda::Result cuEventRecord(cuda::Event event, cuda::Stream) {
  return *reinterpret_cast<double*>(event) = now_ms, cuda::kSuccess;
}
cuda::Result cuEventElapsedTime(float* milliseconds, cuda::Event begin, cuda::Event end) {
  *milliseconds = static_cast<float>(*reinterpret_cast<double*>(end) - *reinterpret_cast<double*>(begin));
  return cuda::kSuccess;
}
cuda::Result cuModuleLoadDataEx(cuda::Module* module, const void* ptx, unsigned count, int* options, void** values) {
  ENTER("cuModuleLoadDataEx");
  if (const int code = static_cast<int>(number("ptx", 0)); code != 0) {
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == cuda::kJitErrorLogBuffer)
        std::strcpy(static_cast<char*>(values[i]), "ptxas: line 1: too new\n");
    }
    return code;
  }
  return *module = reinterpret_cast<cuda::Module>(const_cast<void*>(ptx)), cuda::kSuccess;
}
cuda::Result cuModuleUnload(cuda::Module) { return cuda::kSuccess; }
cuda::Result cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name) {
  // A function that the PTX has not would be an error of the program's.
  if (std::strstr(reinterpret_cast<const char*>(module), (std::string(".entry ") + name + "(").c_str()) == nullptr)
    return 500;
  return *function = reinterpret_cast<cuda::Function>(new std::string(name)), cuda::kSuccess;
}
cuda::Result cuLaunchKernel(cuda::Function function, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                            unsigned, unsigned, cuda::Stream, void** arguments, void**) {
  ENTER("cuLaunchKernel");
  const auto& name = *reinterpret_cast<const std::string*>(function);
  if (name == burn_in::kFill)
    fill(arguments);
  else if (name == burn_in::kCheck)
    check(arguments);
  else
    add_up(name, static_cast<double>(grid) * block, arguments);
  return cuda::kSuccess;
}

int cublasCreate_v2(cuda::CublasHandle* handle) {
  if (const int status = static_cast<int>(number("cublas", 0)); status != 0) return status;
  return *handle = reinterpret_cast<cuda::CublasHandle>(&used), 0;
}
int cublasSetStream_v2(cuda::CublasHandle, cuda::Stream) { return 0; }
int cublasGemmEx(cuda::CublasHandle, int, int, int m, int n, int k, const void*, const void*, int, int, const void*,
                 int, int, const void*, void*, int, int, int, int) {
  ENTER("cublasGemmEx");
  return spend(2.0 * m * n * k, 1e12 * number("gemm", 700)), 0;
}

}  // extern "C"
