// SPDX-License-Identifier: Apache-2.0
#include "memory/cuda_device.hpp"

#include <unistd.h>

#include <array>
#include <string>
#include <utility>

namespace gpuwarden::memory {
namespace {

constexpr std::string_view kGoneHint = "end the process, or make a new context and a new pool; what it held is free";

/// Codes after which nothing works any more in this process or context.
bool is_final(cuda::Result code) {
  return code == cuda::kNotInitialized || code == cuda::kDeinitialized || code == cuda::kInvalidContext ||
         code == cuda::kContextIsDestroyed;
}

/// The first function that the library has not, of those that every driver since CUDA 7.0 has.
std::string_view first_missing(const cuda::Symbols& driver) {
#define GPUWARDEN_HAS(symbol) std::pair(std::string_view(#symbol), driver.symbol != nullptr)
  const auto found = std::to_array({
      GPUWARDEN_HAS(cuInit),
      GPUWARDEN_HAS(cuDeviceGet),
      GPUWARDEN_HAS(cuDeviceGetCount),
      GPUWARDEN_HAS(cuDeviceGetAttribute),
      GPUWARDEN_HAS(cuDevicePrimaryCtxRetain),
      GPUWARDEN_HAS(cuDevicePrimaryCtxRelease),
      GPUWARDEN_HAS(cuCtxGetCurrent),
      GPUWARDEN_HAS(cuCtxGetDevice),
      GPUWARDEN_HAS(cuCtxPushCurrent_v2),
      GPUWARDEN_HAS(cuCtxPopCurrent_v2),
      GPUWARDEN_HAS(cuCtxSynchronize),
      GPUWARDEN_HAS(cuMemGetInfo_v2),
      GPUWARDEN_HAS(cuMemAlloc_v2),
      GPUWARDEN_HAS(cuMemFree_v2),
      GPUWARDEN_HAS(cuMemHostAlloc),
      GPUWARDEN_HAS(cuMemFreeHost),
      GPUWARDEN_HAS(cuMemcpyDtoDAsync_v2),
      GPUWARDEN_HAS(cuStreamSynchronize),
      GPUWARDEN_HAS(cuStreamWaitEvent),
      GPUWARDEN_HAS(cuEventCreate),
      GPUWARDEN_HAS(cuEventRecord),
      GPUWARDEN_HAS(cuEventQuery),
      GPUWARDEN_HAS(cuEventSynchronize),
      GPUWARDEN_HAS(cuEventDestroy_v2),
  });
#undef GPUWARDEN_HAS
  for (const auto& [symbol, is_there] : found) {
    if (!is_there) return symbol;
  }
  return {};
}

std::unexpected<Error> refuse(const cuda::Symbols& driver, std::string_view function, cuda::Result code,
                              std::string hint = {}) {
  const ErrorCode kind = cuda::error_code_of(code);
  return fail(kind == ErrorCode::failed ? ErrorCode::unavailable : kind,
              cuda::describe(driver.cuGetErrorName, driver.cuGetErrorString, function, code), std::move(hint));
}

/// The UUID as text; empty where the driver does not tell. A MIG instance answers with its own to the newer function.
std::string uuid_of(const cuda::Symbols& driver, cuda::Device device) {
  const auto ask = driver.cuDeviceGetUuid_v2 != nullptr ? driver.cuDeviceGetUuid_v2 : driver.cuDeviceGetUuid;
  cuda::Uuid uuid{};
  if (ask == nullptr || ask(&uuid, device) != cuda::kSuccess) return "";
  return cuda::uuid_text(uuid);
}

std::string_view without_prefix(std::string_view uuid) {
  for (const std::string_view prefix : {"GPU-", "MIG-"}) {
    if (uuid.starts_with(prefix)) return uuid.substr(prefix.size());
  }
  return uuid;
}

Result<cuda::Device> find_device(const cuda::Symbols& driver, const CudaOptions& options) {
  int count = 0;
  if (const auto code = driver.cuDeviceGetCount(&count); code != cuda::kSuccess)
    return refuse(driver, "cuDeviceGetCount", code);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::Device device = 0;
    if (const auto code = driver.cuDeviceGet(&device, ordinal); code != cuda::kSuccess)
      return refuse(driver, "cuDeviceGet", code);
    const bool wanted = options.uuid.value.empty()
                            ? options.device.value == static_cast<unsigned>(ordinal)
                            : without_prefix(uuid_of(driver, device)) == without_prefix(options.uuid.value);
    if (wanted) return device;
  }
  const std::string name =
      options.uuid.value.empty() ? std::to_string(options.device.value) : printable(options.uuid.value);
  return fail(ErrorCode::not_found, fmt::format("CUDA has no device {}: it sees {}", name, count),
              "look at CUDA_VISIBLE_DEVICES and at gpuwarden list");
}

}  // namespace

CudaDevice::CudaDevice(const cuda::Symbols& driver, cuda::Device device, const CudaOptions& options)
    : driver_(driver), device_(device), kind_(options.context), process_(::getpid()) {}

Result<std::shared_ptr<const CudaDevice>> CudaDevice::open(const CudaOptions& options) {
  GPUWARDEN_TRY(void* const library, cuda::open_library(options.library));
  const cuda::Symbols driver = cuda::find_symbols(library);
  if (const auto missing = first_missing(driver); !missing.empty())
    return fail(ErrorCode::unavailable, fmt::format("{} has no {}: it is not CUDA's driver library, or too old a one",
                                                    options.library.string(), missing));
  if (const auto code = driver.cuInit(0); code != cuda::kSuccess)
    return refuse(driver, "cuInit", code,
                  // What cuInit itself answers so is a forked child of a process that had called it.
                  code == cuda::kNotInitialized
                      ? "this process was forked after CUDA was first used: use spawn, or fork before that"
                      : "gpuwarden doctor says why CUDA does not start");
  GPUWARDEN_TRY(const cuda::Device device, find_device(driver, options));
  std::shared_ptr<CudaDevice> result(new CudaDevice(driver, device, options));
  cuda::find_symbol(library, "cuThreadExchangeStreamCaptureMode", result->exchange_capture_mode_);
  GPUWARDEN_CHECK(result->start_context());
  return result;
}

Result<void> CudaDevice::start_context() {
  if (kind_ == CudaContext::primary) {
    cuda::Context retained = nullptr;
    if (const auto code = driver_.cuDevicePrimaryCtxRetain(&retained, device_); code != cuda::kSuccess)
      return refuse(driver_, "cuDevicePrimaryCtxRetain", code);
    context_ = retained;
    return {};
  }
  cuda::Device device = -1;
  if (const auto code = driver_.cuCtxGetDevice(&device); code != cuda::kSuccess)
    return refuse(driver_, "cuCtxGetDevice", code, "make a context current in this thread, or use the primary one");
  if (device != device_)
    return fail(ErrorCode::invalid_argument,
                fmt::format("the current context is on device {}, but device {} is asked for", device, device_),
                "make a context of that device current first");
  cuda::Context current = nullptr;
  if (const auto code = driver_.cuCtxGetCurrent(&current); code != cuda::kSuccess)
    return refuse(driver_, "cuCtxGetCurrent", code);
  context_ = current;
  return {};
}

CudaDevice::~CudaDevice() {
  // A forked child shares no context with its parent and has nothing to give back.
  if (kind_ != CudaContext::primary || context_ == nullptr || !is_own_process()) return;
  const auto release = driver_.cuDevicePrimaryCtxRelease_v2 != nullptr ? driver_.cuDevicePrimaryCtxRelease_v2
                                                                       : driver_.cuDevicePrimaryCtxRelease;
  release(device_);
}

bool CudaDevice::is_own_process() const { return ::getpid() == process_; }

CudaDevice::Scope::Scope(const CudaDevice& device, bool pushed)
    : device_(&device), pushed_(pushed), mode_(cuda::kCaptureRelaxed) {
  if (device.exchange_capture_mode_ == nullptr || device.exchange_capture_mode_(&mode_) != cuda::kSuccess)
    mode_ = cuda::kCaptureRelaxed;
}

CudaDevice::Scope::~Scope() {
  if (device_ == nullptr) return;
  if (mode_ != cuda::kCaptureRelaxed) device_->exchange_capture_mode_(&mode_);
  cuda::Context popped = nullptr;
  if (pushed_) device_->driver_.cuCtxPopCurrent_v2(&popped);
}

Result<CudaDevice::Scope> CudaDevice::enter() const {
  cuda::Result code = cuda::kSuccess;
  // Once more, since only what fails again is broken.
  for (int tries = 0; tries < 2; ++tries) {
    cuda::Context current = nullptr;
    code = driver_.cuCtxGetCurrent(&current);
    if (code == cuda::kSuccess && current == context_) [[likely]]
      return Scope(*this, false);
    if (code == cuda::kSuccess) code = driver_.cuCtxPushCurrent_v2(context_);
    if (code == cuda::kSuccess) return Scope(*this, true);
  }
  return fail(ErrorCode::unavailable,
              cuda::describe(driver_.cuGetErrorName, driver_.cuGetErrorString, "cuCtxPushCurrent_v2", code),
              std::string(kGoneHint));
}

bool CudaDevice::has(int attribute) const {
  int value = 0;
  return driver_.cuDeviceGetAttribute(&value, attribute, device_) == cuda::kSuccess && value != 0;
}

Uuid CudaDevice::uuid() const { return Uuid(uuid_of(driver_, device_)); }

Error CudaDevice::error(std::string_view function, cuda::Result code) const {
  Error error{cuda::error_code_of(code),
              cuda::describe(driver_.cuGetErrorName, driver_.cuGetErrorString, function, code), ""};
  if (error.code == ErrorCode::unsatisfied) return error;
  // What broke a context is told by every later call, too; what one call was refused for is not.
  std::size_t free = 0;
  std::size_t total = 0;
  if (is_final(code) || driver_.cuMemGetInfo_v2(&free, &total) != cuda::kSuccess) {
    error.code = ErrorCode::unavailable;
    error.hint = kGoneHint;
  }
  return error;
}

Result<void> check_stream(StreamId stream) {
  if (stream.value != cuda::kStreamPerThread) return {};
  return fail(ErrorCode::invalid_argument, "the per-thread default stream is another one in each thread",
              "use a stream that was created, or the legacy default stream");
}

}  // namespace gpuwarden::memory
