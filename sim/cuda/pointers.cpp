// SPDX-License-Identifier: Apache-2.0
// What is known about an address.
#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda {
namespace {

using namespace server;

template <class Value>
Result give(void* out, Value value) {
  return *static_cast<Value*>(out) = value, kSuccess;
}

bool is_host(const Range& range) { return range.kind == RangeKind::host || range.kind == RangeKind::registered; }

int access_of(const Range& range) {
  if (range.kind != RangeKind::mapping) return kAccessReadWrite;
  int access = kAccessNone;
  for (const auto& [device, flags] : range.access) access |= flags;
  return access;
}

/// Attributes of an address that lies in a range; kInvalidValue for what such memory has not.
Result attribute_of(const Range& range, DevicePointer address, int which, void* out) {
  switch (which) {
    case kPointerContext:
      if (range.kind == RangeKind::mapping) return kInvalidValue;  // virtual memory belongs to no context
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
      return give(out, reinterpret_cast<Context>(range.kind == RangeKind::pool ? 0 : range.context));
    case kPointerMemoryType:
      return give(out, static_cast<unsigned>(is_host(range) ? kMemoryHost : kMemoryDevice));
    case kPointerDevicePointer:
      return give(out, address);
    case kPointerHostPointer:
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the address of host memory
      return is_host(range) ? give(out, reinterpret_cast<void*>(address)) : kInvalidValue;
    case kPointerSyncMemops:
    case kPointerIsManaged:
    case kPointerLegacyIpc:
    case kPointerRdma:
      return give(out, 0U);
    case kPointerBufferId:
      return give(out, static_cast<unsigned long long>(range.number));
    case kPointerDeviceOrdinal:
      return give(out, range.device);
    case kPointerRangeStart:
      return give(out, static_cast<DevicePointer>(range.base));
    case kPointerRangeSize:
      return give(out, static_cast<std::size_t>(range.size));
    case kPointerMapped:
      return give(out, access_of(range) != kAccessNone ? 1U : 0U);
    case kPointerHandleTypes:
      return give(out, static_cast<std::uint64_t>(range.object ? range.object->handle_types : kHandleNone));
    case kPointerAccessFlags:
      return give(out, access_of(range));
    case kPointerPool:
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
      return give(out, reinterpret_cast<MemoryPool>(range.pool));
    default:
      return kInvalidValue;
  }
}

/// For an address that CUDA does not know, where cuPointerGetAttributes gives values instead of an error.
void give_nothing(int which, void* out) {
  switch (which) {
    case kPointerContext:
    case kPointerDevicePointer:
    case kPointerHostPointer:
    case kPointerPool:
    case kPointerRangeStart:
    case kPointerRangeSize:
    case kPointerBufferId:
    case kPointerHandleTypes:
      give(out, std::uint64_t{0});
      break;
    case kPointerDeviceOrdinal:
      give(out, -2);  // as the CUDA driver API reference says
      break;
    default:
      give(out, 0U);
      break;
  }
}

}  // namespace

extern "C" {

Result cuPointerGetAttribute(void* out, int which, DevicePointer pointer) {
  if (out == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const Range* range = call.driver.space.around(pointer);
    return range == nullptr ? kInvalidValue : attribute_of(*range, pointer, which, out);
  });
}

Result cuPointerGetAttributes(unsigned count, int* which, void** out, DevicePointer pointer) {
  if (count == 0 || which == nullptr || out == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const Range* range = call.driver.space.around(pointer);
    for (unsigned i = 0; i < count; ++i) {
      if (out[i] == nullptr || which[i] < kPointerContext) return kInvalidValue;
      if (range == nullptr || attribute_of(*range, pointer, which[i], out[i]) != kSuccess)
        give_nothing(which[i], out[i]);
    }
    return kSuccess;
  });
}

}  // extern "C"
}  // namespace gpuwarden::cuda
