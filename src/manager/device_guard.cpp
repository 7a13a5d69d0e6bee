// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "gpuwarden/manager/gpu_manager.hpp"

namespace gpuwarden::manager {

/// The few functions of the CUDA driver API that make a device current (source: CUDA driver API reference).
struct DeviceGuard::Cuda {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*release)(int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;

  /// nullptr where the library cannot be opened or lacks one of them. The library itself stays open: CUDA does not
  /// survive being unloaded.
  static std::shared_ptr<const Cuda> load(const std::string& library) {
    void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    const auto cuda = std::make_shared<Cuda>();
    bool whole = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
      whole = whole && function != nullptr;
    };
    find(cuda->init, "cuInit");
    find(cuda->device_get, "cuDeviceGet");
    find(cuda->retain, "cuDevicePrimaryCtxRetain");
    find(cuda->release, "cuDevicePrimaryCtxRelease_v2");
    find(cuda->push, "cuCtxPushCurrent_v2");
    find(cuda->pop, "cuCtxPopCurrent_v2");
    return whole ? cuda : nullptr;
  }
};

Result<DeviceGuard> DeviceGuard::enter(CudaOrdinal ordinal, const std::string& library) {
  auto cuda = Cuda::load(library);
  if (cuda == nullptr || cuda->init(0) != 0) {
    return fail(ErrorCode::unavailable, "the CUDA driver cannot be used", "install the NVIDIA driver (libcuda.so.1)");
  }
  int device = 0;
  if (cuda->device_get(&device, static_cast<int>(ordinal.value)) != 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("there is no CUDA device {}", ordinal.value),
                "see CUDA_VISIBLE_DEVICES");
  }
  void* context = nullptr;
  if (cuda->retain(&context, device) != 0)
    return fail(ErrorCode::unavailable, fmt::format("no CUDA context on device {}", ordinal.value));
  if (cuda->push(context) != 0) {
    cuda->release(device);
    return fail(ErrorCode::failed, fmt::format("CUDA device {} cannot be made current", ordinal.value));
  }
  return DeviceGuard(std::move(cuda), device);
}

DeviceGuard::DeviceGuard(DeviceGuard&& other) noexcept = default;

DeviceGuard::~DeviceGuard() {
  if (!cuda_) return;
  void* context = nullptr;
  cuda_->pop(&context);
  cuda_->release(device_);
}

}  // namespace gpuwarden::manager
