// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "gpuwarden/memory/async_pool.hpp"
#include "memory/cuda_device.hpp"
#include "memory/live_sizes.hpp"

namespace gpuwarden::memory {
namespace {

std::unexpected<Error> nothing_asked() {
  return fail(ErrorCode::invalid_argument, "cannot allocate 0 bytes of device memory");
}

/// What the driver says to sizes that it cannot even look for.
constexpr Bytes kAbsurd = Bytes(std::uint64_t{1} << 47U);

}  // namespace

struct AsyncPoolResource::State {
  explicit State(std::shared_ptr<const CudaDevice> on) : device(std::move(on)) {}

  std::shared_ptr<const CudaDevice> device;
  cuda::MemoryPool pool = nullptr;
  LiveSizes live;

  Result<Bytes> attribute(int which) const {
    GPUWARDEN_TRY(const auto scope, device->enter());
    std::uint64_t value = 0;
    GPUWARDEN_CHECK(GPUWARDEN_CUDA_CALL(*device, cuMemPoolGetAttribute, pool, which, &value));
    return Bytes(value);
  }
};

AsyncPoolResource::AsyncPoolResource(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<AsyncPoolResource>> AsyncPoolResource::open(const AsyncPoolOptions& options) {
  GPUWARDEN_TRY(const auto device, CudaDevice::open(options.cuda));
  // All functions of pools came with CUDA 11.2.
  if (device->driver().cuMemPoolCreate == nullptr || !device->has(cuda::kMemoryPoolsSupported))
    return fail(ErrorCode::unavailable, "the driver or the device has no stream-ordered memory pools (CUDA 11.2)",
                "use the pool on virtual memory (CudaUpstream)");
  GPUWARDEN_TRY(const auto scope, device->enter());
  const cuda::PoolProperties properties{
      .type = cuda::kAllocationPinned,
      .handle_types = options.cuda.exportable ? cuda::kHandlePosixFd : cuda::kHandleNone,
      .location = {cuda::kLocationDevice, device->device()}};
  auto state = std::make_unique<State>(device);
  GPUWARDEN_CHECK(GPUWARDEN_CUDA_CALL(*device, cuMemPoolCreate, &state->pool, &properties));
  std::unique_ptr<AsyncPoolResource> result(new AsyncPoolResource(std::move(state)));
  std::uint64_t threshold = options.release_threshold ? options.release_threshold->value : ~std::uint64_t{0};
  GPUWARDEN_CHECK(GPUWARDEN_CUDA_CALL(*device, cuMemPoolSetAttribute, result->state_->pool, cuda::kPoolReleaseThreshold,
                                      &threshold));
  return result;
}

AsyncPoolResource::~AsyncPoolResource() {
  if (!state_->device->is_own_process()) return;
  if (const auto scope = state_->device->enter()) state_->device->driver().cuMemPoolDestroy(state_->pool);
}

Result<DeviceAddress> AsyncPoolResource::allocate(Bytes size, StreamId stream) {
  if (size.value == 0) return nothing_asked();
  if (size >= kAbsurd) return fail(ErrorCode::unsatisfied, fmt::format("no device has {} bytes", size.value));
  GPUWARDEN_CHECK(check_stream(stream));
  const CudaDevice& device = *state_->device;
  GPUWARDEN_TRY(const auto scope, device.enter());
  const cuda::Symbols& driver = device.driver();
  cuda::DevicePointer address = 0;
  auto code = driver.cuMemAllocFromPoolAsync(&address, size.value, state_->pool, stream_of(stream));
  if (code == cuda::kOutOfMemory && driver.cuStreamSynchronize(stream_of(stream)) == cuda::kSuccess &&
      driver.cuMemPoolTrimTo(state_->pool, 0) == cuda::kSuccess) {
    code = driver.cuMemAllocFromPoolAsync(&address, size.value, state_->pool, stream_of(stream));
  }
  GPUWARDEN_CHECK(device.checked("cuMemAllocFromPoolAsync", code));
  state_->live.add({address}, size);
  return DeviceAddress{address};
}

Result<void> AsyncPoolResource::deallocate(DeviceAddress address, Bytes size, StreamId stream) {
  GPUWARDEN_CHECK(check_stream(stream));
  GPUWARDEN_TRY(const auto scope, state_->device->enter());
  GPUWARDEN_CHECK(state_->live.take(address, size));
  auto result = GPUWARDEN_CUDA_CALL(*state_->device, cuMemFreeAsync, address.value, stream_of(stream));
  if (!result) state_->live.add(address, size);
  return result;
}

Result<void> AsyncPoolResource::trim(Bytes keep) {
  GPUWARDEN_TRY(const auto scope, state_->device->enter());
  return GPUWARDEN_CUDA_CALL(*state_->device, cuMemPoolTrimTo, state_->pool, keep.value);
}

Result<Bytes> AsyncPoolResource::reserved() const { return state_->attribute(cuda::kPoolReservedCurrent); }
Result<Bytes> AsyncPoolResource::used() const { return state_->attribute(cuda::kPoolUsedCurrent); }

struct DirectResource::State {
  explicit State(std::shared_ptr<const CudaDevice> on) : device(std::move(on)) {}

  std::shared_ptr<const CudaDevice> device;
  LiveSizes live;
};

DirectResource::DirectResource(std::unique_ptr<State> state) : state_(std::move(state)) {}
DirectResource::~DirectResource() = default;

Result<std::unique_ptr<DirectResource>> DirectResource::open(const CudaOptions& options) {
  GPUWARDEN_TRY(auto device, CudaDevice::open(options));
  return std::unique_ptr<DirectResource>(new DirectResource(std::make_unique<State>(std::move(device))));
}

Result<DeviceAddress> DirectResource::allocate(Bytes size, StreamId) {
  if (size.value == 0) return nothing_asked();
  if (size >= kAbsurd) return fail(ErrorCode::unsatisfied, fmt::format("no device has {} bytes", size.value));
  GPUWARDEN_TRY(const auto scope, state_->device->enter());
  cuda::DevicePointer address = 0;
  GPUWARDEN_CHECK(GPUWARDEN_CUDA_CALL(*state_->device, cuMemAlloc_v2, &address, size.value));
  state_->live.add({address}, size);
  return DeviceAddress{address};
}

Result<void> DirectResource::deallocate(DeviceAddress address, Bytes size, StreamId) {
  GPUWARDEN_TRY(const auto scope, state_->device->enter());
  GPUWARDEN_CHECK(state_->live.take(address, size));
  auto result = GPUWARDEN_CUDA_CALL(*state_->device, cuMemFree_v2, address.value);
  if (!result) state_->live.add(address, size);
  return result;
}

}  // namespace gpuwarden::memory
