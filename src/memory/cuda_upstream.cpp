// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/cuda_upstream.hpp"

#include <utility>

#include "memory/cuda_device.hpp"

namespace gpuwarden::memory {
namespace {

cuda::Event event_of(EventHandle event) {
  return reinterpret_cast<cuda::Event>(event.value);  // NOLINT(performance-no-int-to-ptr): CUDA's name for it
}

cuda::AllocationProperties page_properties(const CudaDevice& device, bool exportable) {
  return {.type = cuda::kAllocationPinned,
          .handle_types = exportable ? cuda::kHandlePosixFd : cuda::kHandleNone,
          .location = {cuda::kLocationDevice, device.device()}};
}

/// Whether the driver and the device can do what a pool needs.
Result<void> check_abilities(const CudaDevice& device, bool exportable) {
  const cuda::Symbols& driver = device.driver();
  // They came together, with CUDA 10.2.
  if (driver.cuMemAddressReserve == nullptr || driver.cuMemSetAccess == nullptr)
    return fail(ErrorCode::unavailable, "the driver has no virtual memory management: it is older than CUDA 10.2",
                "update the driver, or use cuMemAlloc (DirectResource)");
  if (!device.has(cuda::kVirtualMemorySupported))
    return fail(ErrorCode::unavailable, "this device has no virtual memory management",
                "use cuMemAlloc (DirectResource) or stream-ordered memory (AsyncPoolResource)");
  if (exportable && !device.has(cuda::kPosixHandlesSupported))
    return fail(ErrorCode::unavailable, "this device cannot export memory as file descriptors");
  const auto properties = page_properties(device, exportable);
  std::size_t granularity = 0;
  GPUWARDEN_CHECK(
      GPUWARDEN_CUDA_CALL(device, cuMemGetAllocationGranularity, &granularity, &properties, cuda::kGranularityMinimum));
  if (granularity == 0 || kPage.value % granularity != 0)
    return fail(ErrorCode::unavailable,
                fmt::format("this device gives memory in units of {} bytes; pages have {}", granularity, kPage.value));
  return {};
}

/// Records an event behind all work of a stream, which may have been destroyed meanwhile.
cuda::Result record_even_if_destroyed(const CudaDevice& device, cuda::Event event, cuda::Stream stream) {
  const cuda::Symbols& driver = device.driver();
  const auto code = driver.cuEventRecord(event, stream);
  if (code != cuda::kInvalidHandle) return code;
  // A stream that lives is one of another device or context, for which nothing can be recorded here.
  cuda::Context context = nullptr;
  if (driver.cuStreamGetCtx != nullptr && driver.cuStreamGetCtx(stream, &context) == cuda::kSuccess) return code;
  // Its work may still run, and only the context can be asked about that.
  const auto synchronized = driver.cuCtxSynchronize();
  return synchronized == cuda::kSuccess ? driver.cuEventRecord(event, nullptr) : synchronized;
}

}  // namespace

CudaUpstream::CudaUpstream(std::shared_ptr<const CudaDevice> device, bool exportable)
    : device_(std::move(device)), exportable_(exportable) {}

Result<std::unique_ptr<CudaUpstream>> CudaUpstream::open(const CudaOptions& options) {
  GPUWARDEN_TRY(auto device, CudaDevice::open(options));
  {
    GPUWARDEN_TRY(const auto scope, device->enter());
    GPUWARDEN_CHECK(check_abilities(*device, options.exportable));
  }
  return std::unique_ptr<CudaUpstream>(new CudaUpstream(std::move(device), options.exportable));
}

CudaUpstream::~CudaUpstream() {
  if (!device_->is_own_process()) return;
  const auto scope = device_->enter();
  if (!scope) return;
  for (const EventHandle event : events_) device_->driver().cuEventDestroy_v2(event_of(event));
}

Result<DeviceAddress> CudaUpstream::reserve(Bytes size) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  cuda::DevicePointer address = 0;
  GPUWARDEN_CHECK(GPUWARDEN_CUDA_CALL(*device_, cuMemAddressReserve, &address, size.value, kPage.value, 0, 0));
  return DeviceAddress{address};
}

Result<void> CudaUpstream::release(DeviceAddress address, Bytes size) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  return GPUWARDEN_CUDA_CALL(*device_, cuMemAddressFree, address.value, size.value);
}

Result<void> CudaUpstream::create(std::span<PageHandle> pages) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  const auto properties = page_properties(*device_, exportable_);
  for (std::size_t made = 0; made < pages.size(); ++made) {
    cuda::AllocationHandle handle = 0;
    const auto code = device_->driver().cuMemCreate(&handle, kPage.value * pages[made].pages, &properties, 0);
    if (code == cuda::kSuccess) {
      pages[made].value = handle;
      continue;
    }
    for (std::size_t i = 0; i < made; ++i) device_->driver().cuMemRelease(std::exchange(pages[i].value, 0));
    return device_->checked("cuMemCreate", code);
  }
  return {};
}

Result<void> CudaUpstream::destroy(std::span<const PageHandle> pages) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    auto code = device_->driver().cuMemRelease(pages[i].value);
    // Once some are gone there is no way back, so that a call that fails is made again, and then passed over: the
    // driver frees what is left with the context.
    if (code != cuda::kSuccess && i > 0) code = device_->driver().cuMemRelease(pages[i].value);
    if (code != cuda::kSuccess && i == 0) return device_->checked("cuMemRelease", code);
  }
  return {};
}

Result<void> CudaUpstream::map(DeviceAddress address, std::span<const PageHandle> pages) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  std::uint64_t mapped = 0;  // bytes
  const auto take_back = [&] {
    if (mapped > 0 && device_->driver().cuMemUnmap(address.value, mapped) != cuda::kSuccess)
      device_->driver().cuMemUnmap(address.value, mapped);
  };
  for (const PageHandle& piece : pages) {
    const std::uint64_t size = kPage.value * piece.pages;
    const auto code = device_->driver().cuMemMap(address.value + mapped, size, 0, piece.value, 0);
    if (code != cuda::kSuccess) {
      take_back();
      return device_->checked("cuMemMap", code);
    }
    mapped += size;
  }
  const cuda::AccessDescriptor access{{cuda::kLocationDevice, device_->device()}, cuda::kAccessReadWrite};
  const auto code = device_->driver().cuMemSetAccess(address.value, mapped, &access, 1);
  if (code != cuda::kSuccess) take_back();
  return device_->checked("cuMemSetAccess", code);
}

Result<void> CudaUpstream::unmap(DeviceAddress address, Bytes size) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  return GPUWARDEN_CUDA_CALL(*device_, cuMemUnmap, address.value, size.value);
}

Result<void> CudaUpstream::accepts(StreamId stream) { return check_stream(stream); }

Result<EventHandle> CudaUpstream::record(StreamId stream) {
  GPUWARDEN_CHECK(check_stream(stream));
  GPUWARDEN_TRY(const auto scope, device_->enter());
  EventHandle event;
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      event = events_.back();
      events_.pop_back();
    }
  }
  if (event.value == 0) {
    cuda::Event made = nullptr;
    GPUWARDEN_CHECK(GPUWARDEN_CUDA_CALL(*device_, cuEventCreate, &made, cuda::kEventDisableTiming));
    event = EventHandle{reinterpret_cast<std::uintptr_t>(made)};
  }
  const auto code = record_even_if_destroyed(*device_, event_of(event), stream_of(stream));
  if (code == cuda::kSuccess) return event;
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  return std::unexpected(device_->error("cuEventRecord", code));
}

Result<bool> CudaUpstream::is_done(EventHandle event) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  const auto code = device_->driver().cuEventQuery(event_of(event));
  if (code == cuda::kNotReady) return false;
  GPUWARDEN_CHECK(device_->checked("cuEventQuery", code));
  return true;
}

Result<void> CudaUpstream::wait(StreamId stream, EventHandle event) {
  GPUWARDEN_CHECK(check_stream(stream));
  GPUWARDEN_TRY(const auto scope, device_->enter());
  return GPUWARDEN_CUDA_CALL(*device_, cuStreamWaitEvent, stream_of(stream), event_of(event), 0);
}

Result<void> CudaUpstream::synchronize(EventHandle event) {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  return GPUWARDEN_CUDA_CALL(*device_, cuEventSynchronize, event_of(event));
}

Result<void> CudaUpstream::forget(EventHandle event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
  return {};
}

bool CudaUpstream::is_capturing(StreamId stream) {
  // The legacy stream's answer while another stream is captured: using it now would break that capture
  // (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT).
  constexpr int kCaptureImplicit = 906;
  const auto ask = device_->driver().cuStreamIsCapturing;
  if (ask == nullptr || !check_stream(stream)) return false;
  const auto scope = device_->enter();
  if (!scope) return false;
  int status = 0;
  const auto code = ask(stream_of(stream), &status);
  return code == cuda::kSuccess ? status != cuda::kCaptureNone : code == kCaptureImplicit;
}

Result<DeviceMemory> CudaUpstream::memory() {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  std::size_t free = 0;
  std::size_t total = 0;
  GPUWARDEN_CHECK(GPUWARDEN_CUDA_CALL(*device_, cuMemGetInfo_v2, &free, &total));
  return DeviceMemory{Bytes(total), Bytes(free)};
}

Result<void> CudaUpstream::copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) {
  GPUWARDEN_CHECK(check_stream(stream));
  GPUWARDEN_TRY(const auto scope, device_->enter());
  return GPUWARDEN_CUDA_CALL(*device_, cuMemcpyDtoDAsync_v2, to.value, from.value, size.value, stream_of(stream));
}

Result<void> CudaUpstream::synchronize_context() {
  GPUWARDEN_TRY(const auto scope, device_->enter());
  return device_->checked("cuCtxSynchronize", device_->driver().cuCtxSynchronize());
}

Result<UniqueFd> CudaUpstream::export_page(PageHandle page) {
  if (!exportable_)
    return fail(ErrorCode::invalid_argument, "these pages cannot be exported", "open the device with exportable set");
  GPUWARDEN_TRY(const auto scope, device_->enter());
  int fd = -1;
  GPUWARDEN_CHECK(
      GPUWARDEN_CUDA_CALL(*device_, cuMemExportToShareableHandle, &fd, page.value, cuda::kHandlePosixFd, 0));
  return UniqueFd(fd);
}

Uuid CudaUpstream::uuid() const { return device_->uuid(); }
CudaOrdinal CudaUpstream::device() const { return CudaOrdinal{static_cast<std::uint32_t>(device_->device())}; }

}  // namespace gpuwarden::memory
