// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/started_cuda.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <string>

#include "nvidia/cuda_library.hpp"

namespace gpuwarden::pools {
namespace {

struct Close {
  void operator()(void* handle) const { ::dlclose(handle); }  // one use fewer: others hold the library
};

std::string device_uuid(const cuda::Symbols& driver, int ordinal) {
  const auto ask = driver.cuDeviceGetUuid_v2 != nullptr ? driver.cuDeviceGetUuid_v2 : driver.cuDeviceGetUuid;
  cuda::Device device{};
  cuda::Uuid uuid{};
  if (ask == nullptr || driver.cuDeviceGet == nullptr || driver.cuDeviceGet(&device, ordinal) != cuda::kSuccess ||
      ask(&uuid, device) != cuda::kSuccess)
    return "";
  return cuda::uuid_text(uuid);
}

}  // namespace

std::optional<std::vector<Uuid>> started_cuda_devices(const std::filesystem::path& library) {
  const std::unique_ptr<void, Close> handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
  if (!handle) return std::nullopt;
  const cuda::Symbols driver = cuda::find_symbols(handle.get());
  int count = 0;
  // Before cuInit the driver refuses to count.
  if (driver.cuDeviceGetCount == nullptr || driver.cuDeviceGetCount(&count) != cuda::kSuccess) return std::nullopt;
  std::vector<Uuid> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) devices.emplace_back(device_uuid(driver, ordinal));
  return devices;
}

}  // namespace gpuwarden::pools
