// SPDX-License-Identifier: Apache-2.0
// One device of the CUDA driver, started, with the context in which all that stands on it works.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "gpuwarden/memory/cuda_upstream.hpp"
#include "nvidia/cuda_library.hpp"

namespace gpuwarden::memory {

class CudaDevice {
 public:
  /// Starts CUDA; fails as CudaUpstream::open() says.
  static Result<std::shared_ptr<const CudaDevice>> open(const CudaOptions& options);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice();

  /// While it lives, the device's context is current in this thread, and what would disturb another stream's capture
  /// into a graph is allowed, since it concerns none; then all is as before.
  class Scope {
   public:
    Scope(Scope&& other) noexcept
        : device_(std::exchange(other.device_, nullptr)), pushed_(other.pushed_), mode_(other.mode_) {}
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    friend class CudaDevice;
    Scope(const CudaDevice& device, bool pushed);
    const CudaDevice* device_;
    bool pushed_;
    int mode_;  ///< of captures, as it was before
  };
  /// unavailable: the context is gone.
  Result<Scope> enter() const;

  const cuda::Symbols& driver() const { return driver_; }
  cuda::Device device() const { return device_; }
  /// Whether the device has a capability (CUdevice_attribute).
  bool has(int attribute) const;
  Uuid uuid() const;
  bool is_own_process() const;

  /// What a call of `function` said, within enter(). An error that every call gives means that the context is broken.
  Result<void> checked(std::string_view function, cuda::Result code) const {
    if (code == cuda::kSuccess) [[likely]]
      return {};
    return std::unexpected(error(function, code));
  }
  Error error(std::string_view function, cuda::Result code) const;

 private:
  CudaDevice(const cuda::Symbols& driver, cuda::Device device, const CudaOptions& options);
  Result<void> start_context();

  const cuda::Symbols driver_;
  const cuda::Device device_;
  const CudaContext kind_;
  const int process_;
  cuda::Context context_ = nullptr;
  cuda::Result (*exchange_capture_mode_)(int*) = nullptr;  ///< CUDA 10.1 and later
};

/// invalid_argument for the per-thread default stream, which is another one in each thread.
Result<void> check_stream(StreamId stream);

inline cuda::Stream stream_of(StreamId stream) {
  return reinterpret_cast<cuda::Stream>(stream.value);  // NOLINT(performance-no-int-to-ptr): CUDA's name for it
}

}  // namespace gpuwarden::memory

/// GPUWARDEN_CUDA_CALL(device, cuMemUnmap, address, size): a call of the driver as Result<void>.
#define GPUWARDEN_CUDA_CALL(device, symbol, ...) (device).checked(#symbol, (device).driver().symbol(__VA_ARGS__))
