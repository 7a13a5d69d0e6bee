// SPDX-License-Identifier: Apache-2.0
// Copies and fills. The bytes are moved when the call is made; the stream's time tells how long that takes a real GPU.
#include <algorithm>
#include <cstring>

#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda {
namespace {

using namespace server;

void* pointer(DevicePointer address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): device pointers are numbers
}
DevicePointer address_of(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

bool is_device(const Range* range) {
  return range != nullptr && range->kind != RangeKind::host && range->kind != RangeKind::registered;
}

/// Bytes per second of a GPU's memory: twice the clock (double data rate) times the width of the bus.
double memory_bandwidth(const sim::Model& model) { return model.bus_width / 8.0 * model.clock_memory_max * 2e6; }

/// Bytes per second over PCIe with 16 lanes, as copies of pinned memory reach them (source: NVIDIA's bandwidthTest
/// figures: about 12, 25 and 52 GB/s for generations 3, 4 and 5); pageable memory goes through a staging buffer at
/// less than half.
double pcie_bandwidth(const sim::Model& model, bool pinned) {
  const double pinned_rate = model.pcie_generation >= 5 ? 52e9 : model.pcie_generation == 4 ? 25e9 : 12e9;
  return pinned ? pinned_rate : std::min(pinned_rate / 2, 10e9);
}

/// Between GPUs: all NVLinks of the smaller side (source: NVIDIA: 25 GB/s each way of a link since NVLink 2), or PCIe.
double peer_bandwidth(const sim::Model& a, const sim::Model& b) {
  const int links = std::min(a.nvlinks, b.nvlinks);
  return links > 0 ? links * 25e9 : std::min(pcie_bandwidth(a, true), pcie_bandwidth(b, true));
}

std::int64_t duration_of(Driver& d, const Range* to, const Range* from, std::uint64_t bytes) {
  const auto model = [&](const Range* range) -> const sim::Model& { return d.device(range->device)->gpu->model; };
  double rate = 10e9;  // within the host
  if (is_device(to) && is_device(from))
    rate = to->device == from->device ? memory_bandwidth(model(to)) / 2 : peer_bandwidth(model(to), model(from));
  else if (is_device(to))
    rate = pcie_bandwidth(model(to), from != nullptr);
  else if (is_device(from))
    rate = pcie_bandwidth(model(from), to != nullptr);
  return d.latencies.of_bytes(bytes, rate);
}

enum class Side { host, device, either };

/// Whether an address may stand on that side of a copy.
bool fits(Space& space, DevicePointer address, std::size_t bytes, Side side, bool write) {
  if (side == Side::device && space.around(address) == nullptr) return false;
  return address != 0 && space.can_touch(address, bytes, write);
}

struct Copy {
  DevicePointer to = 0;
  DevicePointer from = 0;
  Side to_side = Side::either;
  Side from_side = Side::either;
  std::size_t width = 0;
  std::size_t height = 1;
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;
};

bool is_possible(Space& space, const Copy& copy) {
  if (copy.width >= kTooLarge || copy.height >= kTooLarge / std::max<std::size_t>(copy.width, 1)) return false;
  for (std::size_t row = 0; row < copy.height; ++row) {
    if (!fits(space, copy.to + row * copy.to_pitch, copy.width, copy.to_side, true)) return false;
    if (!fits(space, copy.from + row * copy.from_pitch, copy.width, copy.from_side, false)) return false;
  }
  return true;
}

/// `wait`: the caller goes on only when the copy is over, if the host has a part in it.
Result carry_out(Call& call, const Copy& copy, Stream name, bool wait) {
  if (copy.width == 0 || copy.height == 0) return kSuccess;
  Driver& d = call.driver;
  if (!is_possible(d.space, copy)) return kInvalidValue;
  ContextState* owner = nullptr;
  StreamState* stream = d.stream(name, call.context, owner);
  if (stream == nullptr) return kInvalidHandle;
  for (std::size_t row = 0; row < copy.height; ++row)
    std::memmove(pointer(copy.to + row * copy.to_pitch), pointer(copy.from + row * copy.from_pitch), copy.width);
  const Range* to = d.space.around(copy.to);
  const Range* from = d.space.around(copy.from);
  const std::int64_t duration = duration_of(d, to, from, copy.width * copy.height);
  const Moment end = owner->timeline.enqueue(*stream, call.now(), duration);
  if (wait && !(is_device(to) && is_device(from))) call.wait_until = end;
  return kSuccess;
}

Result copy_now(const char* function, const Copy& copy) {
  return with_context(function, [&](Call& call) { return carry_out(call, copy, nullptr, true); });
}
Result copy_later(const char* function, const Copy& copy, Stream stream) {
  return with_context(function, [&](Call& call) { return carry_out(call, copy, stream, false); });
}

/// One side of a two-dimensional copy.
bool place_of(int type, const void* host, DevicePointer device, DevicePointer& address, Side& side) {
  if (type == kMemoryHost) address = address_of(host), side = Side::host;
  if (type == kMemoryDevice) address = device, side = Side::device;
  if (type == kMemoryUnified) address = device, side = Side::either;
  return type != kMemoryArray && type >= kMemoryHost && type <= kMemoryUnified;
}

Result copy_2d(const char* function, const Copy2D* plan, Stream stream, bool wait) {
  if (plan == nullptr) return kInvalidValue;
  if (plan->source_type == kMemoryArray || plan->target_type == kMemoryArray) return kNotSupported;
  Copy copy{.width = plan->width, .height = plan->height};
  if (!place_of(plan->source_type, plan->source_host, plan->source_device, copy.from, copy.from_side) ||
      !place_of(plan->target_type, plan->target_host, plan->target_device, copy.to, copy.to_side))
    return kInvalidValue;
  copy.from_pitch = plan->source_pitch != 0 ? plan->source_pitch : plan->width + plan->source_x;
  copy.to_pitch = plan->target_pitch != 0 ? plan->target_pitch : plan->width + plan->target_x;
  if (copy.from_pitch < plan->width + plan->source_x || copy.to_pitch < plan->width + plan->target_x)
    return kInvalidValue;
  copy.from += plan->source_y * copy.from_pitch + plan->source_x;
  copy.to += plan->target_y * copy.to_pitch + plan->target_x;
  return with_context(function, [&](Call& call) { return carry_out(call, copy, stream, wait); });
}

/// Rows of values.
struct Area {
  DevicePointer to = 0;
  std::size_t pitch = 0;
  std::size_t width = 0;
  std::size_t height = 1;
};

template <class Value>
Result fill(const char* function, const Area& area, Value value, Stream name) {
  if (area.to % sizeof(Value) != 0 || (area.height > 1 && area.pitch % sizeof(Value) != 0)) return kInvalidValue;
  return with_context(function, [&](Call& call) {
    if (area.width == 0 || area.height == 0) return kSuccess;
    Driver& d = call.driver;
    if (area.width >= kTooLarge / sizeof(Value) || area.height >= kTooLarge / area.width) return kInvalidValue;
    const std::size_t bytes = area.width * sizeof(Value);
    if (area.height > 1 && area.pitch < bytes) return kInvalidValue;
    for (std::size_t row = 0; row < area.height; ++row) {
      if (!fits(d.space, area.to + row * area.pitch, bytes, Side::device, true)) return kInvalidValue;
    }
    ContextState* owner = nullptr;
    StreamState* stream = d.stream(name, call.context, owner);
    if (stream == nullptr) return kInvalidHandle;
    for (std::size_t row = 0; row < area.height; ++row)
      std::fill_n(static_cast<Value*>(pointer(area.to + row * area.pitch)), area.width, value);
    const sim::Model& model = d.device(d.space.around(area.to)->device)->gpu->model;
    owner->timeline.enqueue(*stream, call.now(), d.latencies.of_bytes(bytes * area.height, memory_bandwidth(model)));
    return kSuccess;
  });
}

Copy either(DevicePointer to, DevicePointer from, std::size_t bytes) {
  return {.to = to, .from = from, .width = bytes};
}
Copy to_device(DevicePointer to, const void* from, std::size_t bytes) {
  return {.to = to, .from = address_of(from), .to_side = Side::device, .from_side = Side::host, .width = bytes};
}
Copy to_host(void* to, DevicePointer from, std::size_t bytes) {
  return {.to = address_of(to), .from = from, .to_side = Side::host, .from_side = Side::device, .width = bytes};
}
Copy within(DevicePointer to, DevicePointer from, std::size_t bytes) {
  return {.to = to, .from = from, .to_side = Side::device, .from_side = Side::device, .width = bytes};
}

}  // namespace

extern "C" {

Result cuMemcpy(DevicePointer to, DevicePointer from, std::size_t bytes) {
  return copy_now(__func__, either(to, from, bytes));
}
Result cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
  return copy_later(__func__, either(to, from, bytes), stream);
}
Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t bytes) {
  return copy_now(__func__, to_device(to, from, bytes));
}
Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
  return copy_later(__func__, to_device(to, from, bytes), stream);
}
Result cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
  return copy_now(__func__, to_host(to, from, bytes));
}
Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, Stream stream) {
  return copy_later(__func__, to_host(to, from, bytes), stream);
}
Result cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t bytes) {
  return copy_now(__func__, within(to, from, bytes));
}
Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
  return copy_later(__func__, within(to, from, bytes), stream);
}
Result cuMemcpyPeer(DevicePointer to, Context, DevicePointer from, Context, std::size_t bytes) {
  return copy_now(__func__, within(to, from, bytes));
}
// NOLINTNEXTLINE(readability-function-size): as CUDA has it
Result cuMemcpyPeerAsync(DevicePointer to, Context, DevicePointer from, Context, std::size_t bytes, Stream stream) {
  return copy_later(__func__, within(to, from, bytes), stream);
}
Result cuMemcpy2D_v2(const Copy2D* plan) { return copy_2d(__func__, plan, nullptr, true); }
Result cuMemcpy2DUnaligned_v2(const Copy2D* plan) { return copy_2d(__func__, plan, nullptr, true); }
Result cuMemcpy2DAsync_v2(const Copy2D* plan, Stream stream) { return copy_2d(__func__, plan, stream, false); }

Result cuMemsetD8_v2(DevicePointer to, unsigned char value, std::size_t count) {
  return fill(__func__, {.to = to, .width = count}, value, nullptr);
}
Result cuMemsetD16_v2(DevicePointer to, unsigned short value, std::size_t count) {
  return fill(__func__, {.to = to, .width = count}, value, nullptr);
}
Result cuMemsetD32_v2(DevicePointer to, unsigned value, std::size_t count) {
  return fill(__func__, {.to = to, .width = count}, value, nullptr);
}
Result cuMemsetD2D8_v2(DevicePointer to, std::size_t pitch, unsigned char value, std::size_t width,
                       std::size_t height) {
  return fill(__func__, {to, pitch, width, height}, value, nullptr);
}
Result cuMemsetD2D16_v2(DevicePointer to, std::size_t pitch, unsigned short value, std::size_t width,
                        std::size_t height) {
  return fill(__func__, {to, pitch, width, height}, value, nullptr);
}
Result cuMemsetD2D32_v2(DevicePointer to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height) {
  return fill(__func__, {to, pitch, width, height}, value, nullptr);
}
Result cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count, Stream stream) {
  return fill(__func__, {.to = to, .width = count}, value, stream);
}
Result cuMemsetD16Async(DevicePointer to, unsigned short value, std::size_t count, Stream stream) {
  return fill(__func__, {.to = to, .width = count}, value, stream);
}
Result cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count, Stream stream) {
  return fill(__func__, {.to = to, .width = count}, value, stream);
}
// NOLINTNEXTLINE(readability-function-size): as CUDA has it
Result cuMemsetD2D8Async(DevicePointer to, std::size_t pitch, unsigned char value, std::size_t width,
                         std::size_t height, Stream stream) {
  return fill(__func__, {to, pitch, width, height}, value, stream);
}
// NOLINTNEXTLINE(readability-function-size): as CUDA has it
Result cuMemsetD2D16Async(DevicePointer to, std::size_t pitch, unsigned short value, std::size_t width,
                          std::size_t height, Stream stream) {
  return fill(__func__, {to, pitch, width, height}, value, stream);
}
// NOLINTNEXTLINE(readability-function-size): as CUDA has it
Result cuMemsetD2D32Async(DevicePointer to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height,
                          Stream stream) {
  return fill(__func__, {to, pitch, width, height}, value, stream);
}

}  // extern "C"
}  // namespace gpuwarden::cuda
