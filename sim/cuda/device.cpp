// SPDX-License-Identifier: Apache-2.0
// Devices: which there are, their names and places, and which reach which.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "gpuwarden/base/text.hpp"
#include "sim/core/identity.hpp"
#include "sim/cuda/attributes.hpp"
#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda {
namespace {

using namespace server;

/// Runs `body(Driver&, DeviceState&)` for a device that there is.
template <class Body>
Result with_device(const char* function, Device ordinal, const Body& body) {
  return with_driver(function, [&](Call& call) {
    DeviceState* device = call.driver.device(ordinal);
    return device == nullptr ? kInvalidDevice : body(call.driver, *device);
  });
}

Result copy_text(std::string_view text, char* buffer, int length) {
  if (buffer == nullptr || length <= 0) return kInvalidValue;
  const std::size_t fits = std::min(text.size(), static_cast<std::size_t>(length) - 1);
  std::memcpy(buffer, text.data(), fits);
  buffer[fits] = '\0';
  return kSuccess;
}

/// The sixteen bytes of "GPU-8-4-4-4-12" or "MIG-...".
Uuid uuid_of(std::string_view text) {
  Uuid uuid{};
  std::string digits(text.substr(std::min(text.find('-'), text.size())));
  std::erase(digits, '-');
  for (std::size_t i = 0; i < 16 && 2 * i + 2 <= digits.size(); ++i)
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, uuid.bytes[i], 16);
  return uuid;
}

Result give_uuid(const char* function, Uuid* uuid, Device ordinal, bool of_instance) {
  if (uuid == nullptr) return kInvalidValue;
  return with_device(function, ordinal, [&](Driver&, DeviceState& device) {
    *uuid = uuid_of(of_instance && device.instance ? device.instance->uuid : device.gpu->uuid);
    return kSuccess;
  });
}

/// "0000:17:00.0": CUDA writes four digits of domain where NVML writes eight.
std::string cuda_bus_id(const sim::GpuSpec& gpu) {
  const std::string lower = to_lower(gpu.bus_id);
  const std::size_t colon = lower.find(':');
  return colon > 4 && colon != std::string::npos ? lower.substr(colon - 4) : lower;
}

/// Which devices reach each other's memory: over NVLink, or, on server boards of one architecture, over PCIe; MIG
/// instances reach nobody (source: NVIDIA's MIG user guide).
bool can_reach(const DeviceState& a, const DeviceState& b) {
  if (&a == &b || a.gpu->mig || b.gpu->mig) return false;
  const bool linked = a.gpu->model.nvlinks > 0 && b.gpu->model.nvlinks > 0;
  return linked || (a.gpu->model.ecc && b.gpu->model.ecc && a.gpu->model.architecture == b.gpu->model.architecture);
}

}  // namespace

extern "C" {

Result cuDeviceGet(Device* device, int ordinal) {
  if (device == nullptr) return kInvalidValue;
  return with_device(__func__, ordinal, [&](Driver&, DeviceState&) { return *device = ordinal, kSuccess; });
}

Result cuDeviceGetCount(int* count) {
  if (count == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    *count = static_cast<int>(call.driver.devices.size());
    return kSuccess;
  });
}

Result cuDeviceGetName(char* name, int length, Device ordinal) {
  return with_device(__func__, ordinal, [&](Driver&, DeviceState& device) {
    std::string text = device.gpu->name;
    if (device.instance) text += " MIG " + device.instance->profile;
    return copy_text(text, name, length);
  });
}

Result cuDeviceGetUuid(Uuid* uuid, Device ordinal) { return give_uuid(__func__, uuid, ordinal, false); }
Result cuDeviceGetUuid_v2(Uuid* uuid, Device ordinal) { return give_uuid(__func__, uuid, ordinal, true); }

Result cuDeviceTotalMem_v2(std::size_t* bytes, Device ordinal) {
  if (bytes == nullptr) return kInvalidValue;
  return with_device(__func__, ordinal, [&](Driver& d, DeviceState& device) {
    const auto memory = d.fleet->memory(device.place);
    if (!memory) return kUnknown;
    *bytes = memory->total;
    return kSuccess;
  });
}

Result cuDeviceGetAttribute(int* value, int which, Device ordinal) {
  if (value == nullptr) return kInvalidValue;
  return with_device(__func__, ordinal, [&](Driver& d, DeviceState& device) {
    const auto known = attribute(which, device, d.look());
    if (!known) return kInvalidValue;
    return *value = *known, kSuccess;
  });
}

Result cuDeviceGetProperties(DeviceProperties* properties, Device ordinal) {
  if (properties == nullptr) return kInvalidValue;
  return with_device(__func__, ordinal, [&](Driver& d, DeviceState& device) {
    const auto get = [&](int which) { return attribute(which, device, d.look()).value_or(0); };
    *properties = {
        get(1), {get(2), get(3), get(4)}, {get(5), get(6), get(7)}, get(8), get(9), get(10), get(11), get(12), get(13),
        get(14)};
    return kSuccess;
  });
}

Result cuDeviceComputeCapability(int* major, int* minor, Device ordinal) {
  if (major == nullptr || minor == nullptr) return kInvalidValue;
  return with_device(__func__, ordinal, [&](Driver&, DeviceState& device) {
    *major = device.gpu->model.capability_major;
    *minor = device.gpu->model.capability_minor;
    return kSuccess;
  });
}

Result cuDeviceGetPCIBusId(char* text, int length, Device ordinal) {
  return with_device(__func__, ordinal,
                     [&](Driver&, DeviceState& device) { return copy_text(cuda_bus_id(*device.gpu), text, length); });
}

Result cuDeviceGetByPCIBusId(Device* device, const char* text) {
  const auto wanted = text != nullptr ? sim::parse_bus_id(text) : std::nullopt;
  if (device == nullptr || !wanted) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const auto& devices = call.driver.devices;
    const auto found = std::ranges::find_if(devices, [&](const DeviceState& one) {
      const auto bus = sim::parse_bus_id(one.gpu->bus_id).value_or(sim::BusId{});
      return bus.domain == wanted->domain && bus.bus == wanted->bus && bus.device == wanted->device;
    });
    if (found == devices.end()) return kInvalidDevice;
    return *device = static_cast<Device>(found - devices.begin()), kSuccess;
  });
}

Result cuDeviceCanAccessPeer(int* can, Device from, Device to) {
  if (can == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const DeviceState* a = call.driver.device(from);
    const DeviceState* b = call.driver.device(to);
    if (a == nullptr || b == nullptr) return kInvalidDevice;
    return *can = can_reach(*a, *b) ? 1 : 0, kSuccess;
  });
}

Result cuDeviceGetP2PAttribute(int* value, int which, Device from, Device to) {
  if (value == nullptr || which < kP2pPerformanceRank || which > kP2pArrayAccessSupported) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const DeviceState* a = call.driver.device(from);
    const DeviceState* b = call.driver.device(to);
    if (a == nullptr || b == nullptr || a == b) return kInvalidDevice;
    const bool linked = a->gpu->model.nvlinks > 0 && b->gpu->model.nvlinks > 0;
    const bool reaches = can_reach(*a, *b);
    *value = which == kP2pPerformanceRank         ? (linked ? 0 : 1)
             : which == kP2pNativeAtomicSupported ? (reaches && linked ? 1 : 0)
                                                  : (reaches ? 1 : 0);
    return kSuccess;
  });
}

Result cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  if (flags != 0) return kInvalidValue;
  return with_context(__func__, [&](Call& call) {
    const ContextState* other = call.driver.context(peer);
    if (other == nullptr) return kInvalidContext;
    if (!can_reach(call.device(), *call.driver.device(other->device))) return kPeerAccessUnsupported;
    auto& peers = call.context->peers;
    if (std::ranges::find(peers, other->handle) != peers.end()) return kPeerAccessAlreadyEnabled;
    peers.push_back(other->handle);
    return kSuccess;
  });
}

Result cuCtxDisablePeerAccess(Context peer) {
  return with_context(__func__, [&](Call& call) {
    return std::erase(call.context->peers, reinterpret_cast<std::uintptr_t>(peer)) > 0 ? kSuccess
                                                                                       : kPeerAccessNotEnabled;
  });
}

}  // extern "C"
}  // namespace gpuwarden::cuda
