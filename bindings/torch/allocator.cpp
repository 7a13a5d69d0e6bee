// SPDX-License-Identifier: Apache-2.0
// The functions that PyTorch calls. Their signatures are those of torch/csrc/cuda/CUDAPluggableAllocator.h and of the
// setters in torch/csrc/cuda/Module.cpp, the same in PyTorch 2.3 (which has all of the hooks) up to the main branch of
// 2026: void*(size_t, int, cudaStream_t), void(void*, size_t, int, cudaStream_t), void(int), void(), void(double, int),
// void*(void*, size_t*), void(void*, cudaStream_t), void(int, MempoolId_t, std::function<bool(cudaStream_t)>) and
// void(int, MempoolId_t); the documentation of CUDAPluggableAllocator writes the sizes as ssize_t, which is passed
// alike.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "device.hpp"
#include "gpuwarden/memory.h"
#include "nvidia/cuda_abi.hpp"
#include "pool_status.hpp"

/// A pointer to a type that nobody looks into.
using cudaStream_t = gpuwarden::cuda::Stream;

namespace gpuwarden::torch {
namespace {

using memory::DeviceAddress;
using memory::StreamId;

constexpr unsigned kDevices = 64;

/// All of this process. Never destroyed: PyTorch frees tensors while the process ends, when the driver is gone.
struct Process {
  std::mutex mutex;  ///< of making devices, and of what is below
  std::optional<Result<Settings>> settings;
  std::array<double, kDevices> fractions{};  ///< of set_per_process_memory_fraction; 0: not set
  std::array<std::atomic<Device*>, kDevices> devices{};
};

Process& process() {
  static auto* const instance = new Process();
  return *instance;
}

std::string words_of(const Error& error) {
  return error.hint.empty() ? error.message : error.message + " (" + error.hint + ")";
}

void say(const Error& error) { std::fprintf(stderr, "gpuwarden: %s\n", words_of(error).c_str()); }

/// At the end of the program; devices that were opened before a fork do nothing in the child.
struct Finisher {
  ~Finisher() {
    for (const auto& device : process().devices) {
      if (Device* const opened = device.load(std::memory_order_acquire)) opened->finish();
    }
  }
};

Result<Settings> settings() {
  if (!process().settings) process().settings = read_settings();
  return *process().settings;
}

/// What the environment and PyTorch's memory fraction leave of a device, the smaller of both. Behind the mutex.
Result<memory::MemoryLimit> limit_of(unsigned number) {
  GPUWARDEN_TRY(const Settings with, settings());
  memory::MemoryLimit limit = with.limit;
  if (const double fraction = process().fractions[number]; fraction > 0)
    limit.fraction = std::min(limit.fraction, fraction);
  return limit;
}

Result<Device*> open_device(unsigned number) {
  static const Finisher finisher;
  Process& all = process();
  const std::lock_guard lock(all.mutex);
  if (Device* const opened = all.devices[number].load(std::memory_order_acquire)) return opened;
  GPUWARDEN_TRY(Settings with, settings());
  GPUWARDEN_TRY(with.limit, limit_of(number));
  GPUWARDEN_TRY(auto made, Device::open(number, with));
  Device* const device = made.release();
  all.devices[number].store(device, std::memory_order_release);
  return device;
}

Result<Device*> device_of(int number) {
  if (number < 0 || number >= static_cast<int>(kDevices))
    return fail(ErrorCode::invalid_argument, "there is no CUDA device " + std::to_string(number));
  Device* const opened = process().devices[static_cast<unsigned>(number)].load(std::memory_order_acquire);
  if (opened != nullptr) [[likely]]
    return opened;
  return open_device(static_cast<unsigned>(number));
}

Result<StreamId> id_of(cudaStream_t stream) {
  constexpr std::uint64_t kPerThread = 2;  // cudaStreamPerThread
  const StreamId id{reinterpret_cast<std::uintptr_t>(stream)};
  if (id.value != kPerThread) [[likely]]
    return id;
  return fail(ErrorCode::invalid_argument, "the per-thread default stream is another one in each thread",
              "use PyTorch's streams, or the default stream");
}

DeviceAddress address_of(const void* pointer) { return {reinterpret_cast<std::uintptr_t>(pointer)}; }

Result<void*> allocate(std::size_t size, int number, cudaStream_t stream) {
  GPUWARDEN_TRY(Device* const device, device_of(number));
  GPUWARDEN_TRY(const StreamId id, id_of(stream));
  GPUWARDEN_TRY(const DeviceAddress address, device->allocate(Bytes(size), id));
  return reinterpret_cast<void*>(address.value);  // NOLINT(performance-no-int-to-ptr)
}

Result<void> give_back(void* pointer, std::size_t size, int number, cudaStream_t stream) {
  GPUWARDEN_TRY(Device* const device, device_of(number));
  GPUWARDEN_TRY(const StreamId id, id_of(stream));
  return device->deallocate(address_of(pointer), Bytes(size), id);
}

/// The device whose pool gave a pointer out, with the size of its block.
std::optional<std::pair<Device*, Bytes>> owner_of(const void* pointer) {
  for (const auto& slot : process().devices) {
    Device* const device = slot.load(std::memory_order_acquire);
    if (device == nullptr) continue;
    if (const auto size = device->pool().size_of(address_of(pointer))) return std::pair(device, *size);
  }
  return std::nullopt;
}

Result<void> record_stream(void* pointer, cudaStream_t stream) {
  const auto owner = owner_of(pointer);
  if (!owner) return fail(ErrorCode::invalid_argument, "record_stream of memory that no pool of gpuwarden gave out");
  GPUWARDEN_TRY(const StreamId id, id_of(stream));
  return owner->first->pool().record_stream(address_of(pointer), id);
}

Result<void> set_fraction(double fraction, int number) {
  if (!(fraction > 0 && fraction <= 1))
    return fail(ErrorCode::invalid_argument, "a memory fraction is above 0 and at most 1");
  if (number < 0 || number >= static_cast<int>(kDevices))
    return fail(ErrorCode::invalid_argument, "there is no CUDA device " + std::to_string(number));
  const auto index = static_cast<unsigned>(number);
  Process& all = process();
  const std::lock_guard lock(all.mutex);
  const double before = std::exchange(all.fractions[index], fraction);
  Device* const device = all.devices[index].load(std::memory_order_acquire);
  if (device == nullptr) return {};
  GPUWARDEN_TRY(const memory::MemoryLimit limit, limit_of(index));
  auto result = device->set_limit(limit);
  if (!result) all.fractions[index] = before;
  return result;
}

/// Runs what answers Result<void>; what fails is said, since PyTorch has no ear for it.
template <class Body>
void say_failures(const Body& body) noexcept try {
  if (const Result<void> result = body(); !result) say(result.error());
} catch (const std::exception& exception) {
  std::fprintf(stderr, "gpuwarden: %s\n", exception.what());
}

bool throws_on_failure() {
  const std::lock_guard lock(process().mutex);
  const auto with = settings();
  return with && with->throws;
}

}  // namespace
}  // namespace gpuwarden::torch

using namespace gpuwarden::torch;

extern "C" {

/// nullptr for 0 bytes, and after a message where memory cannot be had; then PyTorch makes a tensor without memory, and
/// raises a RuntimeError ("...its data is not allocated yet") where it is first used. With
/// GPUWARDEN_MEMORY_ON_FAILURE=throw a std::runtime_error goes through to PyTorch, which raises it at once.
[[gnu::visibility("default")]] void* gpuwarden_malloc(ssize_t size, int device, cudaStream_t stream) {
  if (size == 0) return nullptr;
  const auto pointer = allocate(static_cast<std::size_t>(size), device, stream);
  if (pointer) [[likely]]
    return *pointer;
  if (throws_on_failure()) throw std::runtime_error(words_of(pointer.error()));
  say(pointer.error());
  return nullptr;
}

[[gnu::visibility("default")]] void gpuwarden_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  if (pointer == nullptr) return;
  say_failures([&] { return give_back(pointer, static_cast<std::size_t>(size), device, stream); });
}

/// PyTorch tells how many devices there are; pools are made when they are first used.
[[gnu::visibility("default")]] void gpuwarden_init(int) {
  say_failures([]() -> gpuwarden::Result<void> {
    const std::lock_guard lock(process().mutex);
    GPUWARDEN_TRY(const Settings with, settings());
    static_cast<void>(with);
    return {};
  });
}

/// torch.cuda.empty_cache(): all idle memory goes back.
[[gnu::visibility("default")]] void gpuwarden_reset() {
  for (const auto& slot : process().devices) {
    Device* const device = slot.load(std::memory_order_acquire);
    if (device == nullptr) continue;
    say_failures([device]() -> gpuwarden::Result<void> {
      GPUWARDEN_CHECK(device->pool().trim());
      return {};
    });
  }
}

/// torch.cuda.set_per_process_memory_fraction(). Where more than that is live it is refused, with a message.
[[gnu::visibility("default")]] void gpuwarden_memory_fraction(double fraction, int device) {
  say_failures([&] { return set_fraction(fraction, device); });
}

/// The block that a pointer begins, and its size; PyTorch asks before it shares memory with another process, which
/// cannot be done with memory that is mapped page by page.
[[gnu::visibility("default")]] void* gpuwarden_base_alloc(void* pointer, size_t* size) {
  const auto owner = owner_of(pointer);
  if (size != nullptr) *size = owner ? owner->second.value : 0;
  return pointer;
}

[[gnu::visibility("default")]] void gpuwarden_record_stream(void* pointer, cudaStream_t stream) {
  if (pointer == nullptr) return;
  say_failures([&] { return record_stream(pointer, stream); });
}

[[gnu::visibility("default")]] void gpuwarden_begin_allocate_to_pool(int number, GroupId group,
                                                                     std::function<bool(cudaStream_t)> filter) {
  say_failures([&]() -> gpuwarden::Result<void> {
    GPUWARDEN_TRY(Device* const device, device_of(number));
    device->begin(group, [filter = std::move(filter)](StreamId stream) {
      return filter(reinterpret_cast<cudaStream_t>(stream.value));  // NOLINT(performance-no-int-to-ptr)
    });
    return {};
  });
}

[[gnu::visibility("default")]] void gpuwarden_end_allocate_to_pool(int number, GroupId group) {
  say_failures([&]() -> gpuwarden::Result<void> {
    GPUWARDEN_TRY(Device* const device, device_of(number));
    return device->end(group);
  });
}

[[gnu::visibility("default")]] void gpuwarden_release_pool(int number, GroupId group) {
  say_failures([&]() -> gpuwarden::Result<void> {
    GPUWARDEN_TRY(Device* const device, device_of(number));
    return device->release(group);
  });
}

/// For programs, which cannot ask PyTorch: 1 with `status` filled as gpuwarden_pool_get_status() does (but without the
/// device's total and free), 0 where the device has no pool yet, or the process was forked from the one that made it.
[[gnu::visibility("default")]] int gpuwarden_memory_status(int number, gpuwarden_pool_status* status) {
  if (number < 0 || number >= static_cast<int>(kDevices) || status == nullptr) return 0;
  Device* const device = process().devices[static_cast<unsigned>(number)].load(std::memory_order_acquire);
  if (device == nullptr || status->size < sizeof(gpuwarden_pool_status) || !device->pool().check_process()) return 0;
  const std::size_t size = status->size;
  *status = gpuwarden::status_for_c(device->pool().status(), {});
  status->size = size;
  return 1;
}

}  // extern "C"
