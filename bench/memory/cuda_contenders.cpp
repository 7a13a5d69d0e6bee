// SPDX-License-Identifier: Apache-2.0
// On a CUDA device, real or simulated: the pool, and the driver's stream-ordered allocator (what cudaMallocAsync
// calls), both on the default stream.
#include <fmt/format.h>

#include <stdexcept>

#include "gpuwarden/memory/cuda_upstream.hpp"
#include "memory/adapted.hpp"
#include "memory/own_pool.hpp"
#include "nvidia/cuda_library.hpp"

namespace gpuwarden::bench {
namespace {

using memory::CudaUpstream;

/// A device that counts its calls.
class CountedCuda final : public memory::Upstream {
 public:
  explicit CountedCuda(std::unique_ptr<CudaUpstream> device) : device_(std::move(device)) {}

  Result<memory::DeviceAddress> reserve(Bytes size) override { return device_->reserve(size); }
  Result<void> release(memory::DeviceAddress address, Bytes size) override { return device_->release(address, size); }
  Result<void> create(std::span<memory::PageHandle> pages) override {
    for (const memory::PageHandle& piece : pages) driver.call(Call::mem_create, memory::kPage.value * piece.pages);
    return device_->create(pages);
  }
  Result<void> destroy(std::span<const memory::PageHandle> pages) override {
    for (const memory::PageHandle& piece : pages) driver.call(Call::mem_release, memory::kPage.value * piece.pages);
    return device_->destroy(pages);
  }
  Result<void> map(memory::DeviceAddress address, std::span<const memory::PageHandle> pages) override {
    driver.call_map(address, pages);
    return device_->map(address, pages);
  }
  Result<void> unmap(memory::DeviceAddress address, Bytes size) override {
    driver.call_unmap(address, size);
    return device_->unmap(address, size);
  }
  Result<memory::EventHandle> record(memory::StreamId stream) override {
    driver.call(Call::event_record);
    return device_->record(stream);
  }
  Result<bool> is_done(memory::EventHandle event) override {
    driver.call(Call::event_query);
    return device_->is_done(event);
  }
  Result<void> wait(memory::StreamId stream, memory::EventHandle event) override {
    driver.call(Call::stream_wait_event);
    return device_->wait(stream, event);
  }
  Result<void> synchronize(memory::EventHandle event) override {
    driver.call(Call::synchronize);
    return device_->synchronize(event);
  }
  Result<void> forget(memory::EventHandle event) override { return device_->forget(event); }
  Result<memory::DeviceMemory> memory() override { return device_->memory(); }

  Driver driver;

 private:
  std::unique_ptr<CudaUpstream> device_;
};

std::unique_ptr<CudaUpstream> open_device(int ordinal) {
  auto device = CudaUpstream::open({.device = CudaOrdinal{static_cast<std::uint32_t>(ordinal)}});
  if (!device) throw std::runtime_error(device.error().message);
  return std::move(*device);
}

/// The driver's default pool of the device; it keeps what it has (release threshold: no end), as PyTorch's backend for
/// it sets it.
class AsyncPool {
 public:
  explicit AsyncPool(int ordinal) : context_(open_device(ordinal)) {
    const auto library = cuda::open_library("libcuda.so.1");
    if (!library) throw std::runtime_error(library.error().message);
    cuda_ = cuda::find_symbols(*library);
    if (cuda_.cuMemAllocAsync == nullptr || cuda_.cuDeviceGetDefaultMemPool == nullptr)
      throw std::runtime_error("this driver has no stream-ordered allocator");
    cuda::Device device = 0;
    cuda::Context context = nullptr;
    check("cuDeviceGet", cuda_.cuDeviceGet(&device, ordinal));
    check("cuDevicePrimaryCtxRetain", cuda_.cuDevicePrimaryCtxRetain(&context, device));
    check("cuCtxSetCurrent", cuda_.cuCtxSetCurrent(context));
    check("cuDeviceGetDefaultMemPool", cuda_.cuDeviceGetDefaultMemPool(&pool_, device));
    std::uint64_t keep = ~std::uint64_t{0};
    check("cuMemPoolSetAttribute", cuda_.cuMemPoolSetAttribute(pool_, cuda::kPoolReleaseThreshold, &keep));
    std::uint64_t zero = 0;
    check("cuMemPoolTrimTo", cuda_.cuMemPoolTrimTo(pool_, 0));
    check("cuMemPoolSetAttribute", cuda_.cuMemPoolSetAttribute(pool_, cuda::kPoolReservedHigh, &zero));
  }

  void allocate(Slot& slot, std::uint64_t size, std::uint32_t) {
    cuda::DevicePointer address = 0;
    if (cuda_.cuMemAllocAsync(&address, size, nullptr) != cuda::kSuccess)
      throw OutOfMemory("the driver's pool ran out of memory");
    slot.address = address;
  }
  void free(Slot& slot, std::uint32_t) { check("cuMemFreeAsync", cuda_.cuMemFreeAsync(slot.address, nullptr)); }

  Footprint footprint() {
    Footprint footprint;
    check("cuMemPoolGetAttribute", cuda_.cuMemPoolGetAttribute(pool_, cuda::kPoolReservedCurrent, &footprint.reserved));
    check("cuMemPoolGetAttribute",
          cuda_.cuMemPoolGetAttribute(pool_, cuda::kPoolReservedHigh, &footprint.peak_reserved));
    return footprint;
  }
  Driver* driver() { return nullptr; }

 private:
  void check(const char* function, cuda::Result code) const {
    if (code != cuda::kSuccess)
      throw std::runtime_error(cuda::describe(cuda_.cuGetErrorName, cuda_.cuGetErrorString, function, code));
  }

  std::unique_ptr<CudaUpstream> context_;  ///< keeps the primary context alive
  cuda::Symbols cuda_;
  cuda::MemoryPool pool_ = nullptr;
};

/// Work goes to the default stream, whatever the trace says.
template <bool kHandles>
class OwnOnCuda : public OwnPool<CountedCuda, kHandles> {
 public:
  using Base = OwnPool<CountedCuda, kHandles>;
  using Base::Base;
  void allocate(Slot& slot, std::uint64_t size, std::uint32_t) { Base::allocate(slot, size, 0); }
  void free(Slot& slot, std::uint32_t) { Base::free(slot, 0); }
};

template <bool kHandles>
Contender contender(std::string name, const memory::Strategy& strategy, int ordinal) {
  return {std::move(name),
          Contender::Kind::ours,
          {.streams = false, .threads = false},
          [&strategy, ordinal](const DeviceSpec&) {
            return std::make_unique<Adapted<OwnOnCuda<kHandles>>>(std::make_unique<CountedCuda>(open_device(ordinal)),
                                                                  strategy);
          }};
}

}  // namespace

bool cuda_is_simulated() {
  const auto library = cuda::open_library("libcuda.so.1");
  return library && ::dlsym(*library, "gpuwarden_sim_call") != nullptr;
}

std::vector<Contender> cuda_contenders(int ordinal) {
  open_device(ordinal);
  std::vector<Contender> all;
  for (const auto& strategy : memory::strategies())
    all.push_back(contender<false>(fmt::format("gpuwarden {}", strategy.name), strategy, ordinal));
  const auto& first = memory::strategies().front();
  all.push_back(contender<true>(fmt::format("gpuwarden {}, handles", first.name), first, ordinal));
  all.push_back(
      {"cuMemAllocAsync", Contender::Kind::library, {.streams = false, .threads = false}, [ordinal](const DeviceSpec&) {
         return std::make_unique<Adapted<AsyncPool>>(ordinal);
       }});
  return all;
}

}  // namespace gpuwarden::bench
