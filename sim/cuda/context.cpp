// SPDX-License-Identifier: Apache-2.0
// Contexts: the primary one of each device, others, and the thread's stack of them.
#include <algorithm>

#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda {
namespace {

using namespace server;

Context name_of(std::uintptr_t handle) {
  return reinterpret_cast<Context>(handle);  // NOLINT(performance-no-int-to-ptr): a number, not an address
}

/// Price of a context's creation, in microseconds (see clock.cpp).
constexpr double kCreationPrice = 150'000;

Result retain_primary(Call& call, Device ordinal, Context* context) {
  DeviceState* device = call.driver.device(ordinal);
  if (device == nullptr) return kInvalidDevice;
  if (!device->primary) {
    const Result made = call.driver.make_context(ordinal, device->primary_flags, true, device->primary);
    if (made != kSuccess) return device->primary.reset(), made;
    call.extra_price = kCreationPrice;
  }
  ++device->primary_references;
  *context = name_of(device->primary->handle);
  return kSuccess;
}

/// Everything in it goes, whoever still has it current.
void drop_primary(Driver& d, DeviceState& device) {
  d.destroy_context(*device.primary);
  device.primary.reset();
}

Result release_primary(const char* function, Device ordinal) {
  return with_driver(function, [&](Call& call) {
    DeviceState* device = call.driver.device(ordinal);
    if (device == nullptr) return kInvalidDevice;
    if (device->primary_references == 0) return kInvalidContext;
    if (--device->primary_references == 0) drop_primary(call.driver, *device);
    return kSuccess;
  });
}

Result reset_primary(const char* function, Device ordinal) {
  return with_driver(function, [&](Call& call) {
    DeviceState* device = call.driver.device(ordinal);
    if (device == nullptr) return kInvalidDevice;
    if (device->primary) drop_primary(call.driver, *device);
    device->primary_references = 0;
    return kSuccess;
  });
}

Result set_primary_flags(const char* function, Device ordinal, unsigned flags) {
  return with_driver(function, [&](Call& call) {
    DeviceState* device = call.driver.device(ordinal);
    if (device == nullptr) return kInvalidDevice;
    device->primary_flags = flags;
    if (device->primary) device->primary->flags = flags;
    return kSuccess;
  });
}

Result create(const char* function, Context* context, unsigned flags, Device ordinal) {
  if (context == nullptr) return kInvalidValue;
  return with_driver(function, [&](Call& call) {
    if (call.driver.device(ordinal) == nullptr) return kInvalidDevice;
    std::shared_ptr<ContextState> made;
    const Result result = call.driver.make_context(ordinal, flags, false, made);
    if (result != kSuccess) return result;
    context_stack().push_back(made->handle);
    *context = name_of(made->handle);
    return kSuccess;
  });
}

/// The named context, or the current one for null.
ContextState* named(Call& call, Context context) {
  return context != nullptr ? call.driver.context(context) : call.context;
}

}  // namespace

extern "C" {

Result cuDevicePrimaryCtxRetain(Context* context, Device ordinal) {
  if (context == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) { return retain_primary(call, ordinal, context); });
}

Result cuDevicePrimaryCtxRelease(Device ordinal) { return release_primary(__func__, ordinal); }
Result cuDevicePrimaryCtxRelease_v2(Device ordinal) { return release_primary(__func__, ordinal); }
Result cuDevicePrimaryCtxReset(Device ordinal) { return reset_primary(__func__, ordinal); }
Result cuDevicePrimaryCtxReset_v2(Device ordinal) { return reset_primary(__func__, ordinal); }
Result cuDevicePrimaryCtxSetFlags(Device ordinal, unsigned flags) {
  return set_primary_flags(__func__, ordinal, flags);
}
Result cuDevicePrimaryCtxSetFlags_v2(Device ordinal, unsigned flags) {
  return set_primary_flags(__func__, ordinal, flags);
}

Result cuDevicePrimaryCtxGetState(Device ordinal, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const DeviceState* device = call.driver.device(ordinal);
    if (device == nullptr) return kInvalidDevice;
    *flags = device->primary_flags;
    *active = device->primary ? 1 : 0;
    return kSuccess;
  });
}

Result cuCtxCreate_v2(Context* context, unsigned flags, Device ordinal) {
  return create(__func__, context, flags, ordinal);
}

Result cuCtxCreate_v4(Context* context, ContextParameters* parameters, unsigned flags, Device ordinal) {
  if (parameters != nullptr && (parameters->affinity_count != 0 || parameters->graphics != nullptr))
    return kNotSupported;
  return create("cuCtxCreate_v2", context, flags, ordinal);
}

Result cuCtxDestroy_v2(Context context) {
  return with_driver(__func__, [&](Call& call) {
    ContextState* state = call.driver.context(context);
    if (state == nullptr || state->primary) return kInvalidContext;
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == state->handle) stack.pop_back();
    call.driver.destroy_context(*state);
    return kSuccess;
  });
}

Result cuCtxPushCurrent_v2(Context context) {
  return with_driver(__func__, [&](Call& call) {
    if (call.driver.context(context) == nullptr) return kInvalidContext;
    context_stack().push_back(reinterpret_cast<std::uintptr_t>(context));
    return kSuccess;
  });
}

Result cuCtxPopCurrent_v2(Context* context) {
  return with_driver(__func__, [&](Call&) {
    auto& stack = context_stack();
    if (stack.empty()) return kInvalidContext;
    if (context != nullptr) *context = name_of(stack.back());
    stack.pop_back();
    return kSuccess;
  });
}

Result cuCtxSetCurrent(Context context) {
  return with_driver(__func__, [&](Call& call) {
    if (context != nullptr && call.driver.context(context) == nullptr) return kInvalidContext;
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(reinterpret_cast<std::uintptr_t>(context));
    return kSuccess;
  });
}

Result cuCtxGetCurrent(Context* context) {
  if (context == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call&) {
    *context = context_stack().empty() ? nullptr : name_of(context_stack().back());
    return kSuccess;
  });
}

Result cuCtxGetDevice(Device* device) {
  if (device == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) { return *device = call.context->device, kSuccess; });
}

Result cuCtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) { return *flags = call.context->flags, kSuccess; });
}

Result cuCtxGetId(Context context, unsigned long long* id) {
  if (id == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const ContextState* state = named(call, context);
    if (state == nullptr) return kInvalidContext;
    return *id = state->number, kSuccess;
  });
}

Result cuCtxGetApiVersion(Context context, unsigned* version) {
  if (version == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    if (named(call, context) == nullptr) return kInvalidContext;
    return *version = 3020, kSuccess;  // what drivers answer for contexts of cuCtxCreate_v2
  });
}

Result cuCtxGetLimit(std::size_t* value, int limit) {
  if (value == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) {
    // Defaults as the CUDA driver API reference gives them.
    static const std::map<int, std::uint64_t> kDefaults{
        {kLimitStackSize, 1024}, {kLimitPrintfFifoSize, 1 << 20}, {kLimitMallocHeapSize, 8 << 20}};
    const auto known = kDefaults.find(limit);
    if (known == kDefaults.end()) return kUnsupportedLimit;
    const auto set = call.context->limits.find(limit);
    return *value = set != call.context->limits.end() ? set->second : known->second, kSuccess;
  });
}

Result cuCtxSetLimit(int limit, std::size_t value) {
  return with_context(__func__, [&](Call& call) {
    if (limit < kLimitStackSize || limit > kLimitMallocHeapSize) return kUnsupportedLimit;
    return call.context->limits[limit] = value, kSuccess;
  });
}

Result cuCtxGetCacheConfig(int* config) {
  if (config == nullptr) return kInvalidValue;
  return with_context(__func__, [&](Call& call) { return *config = call.context->cache_config, kSuccess; });
}

Result cuCtxSetCacheConfig(int config) {
  if (config < 0 || config > 3) return kInvalidValue;
  return with_context(__func__, [&](Call& call) { return call.context->cache_config = config, kSuccess; });
}

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return with_context(__func__, [&](Call&) {
    // As products since compute capability 6.0 answer.
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return kSuccess;
  });
}

Result cuCtxSynchronize() {
  return with_context(__func__, [&](Call& call) {
    call.synchronise(call.context->timeline.end());
    return kSuccess;
  });
}

}  // extern "C"
}  // namespace gpuwarden::cuda
