// SPDX-License-Identifier: Apache-2.0
// Clocks that callers may choose: which there are, application clocks, locks.
#include <algorithm>
#include <vector>

#include "sim/core/settings.hpp"
#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;
using sim::Field;

constexpr int kClockStep = 15;  // MHz between two graphics clocks of a product

/// From the highest down. GeForce boards have two slower memory clocks beside the full one.
std::vector<unsigned> memory_clocks(const sim::GpuView& gpu) {
  std::vector<unsigned> clocks;
  const auto highest = sim::at(gpu.readings, Field::clock_memory_max);
  if (highest) clocks.push_back(static_cast<unsigned>(*highest));
  if (highest && !gpu.spec->model.ecc) clocks.insert(clocks.end(), {810, 405});
  return clocks;
}

std::vector<unsigned> graphics_clocks(const sim::GpuView& gpu) {
  std::vector<unsigned> clocks;
  const auto highest = static_cast<int>(sim::at(gpu.readings, Field::clock_graphics_max).value_or(0));
  for (int clock = highest; clock > 0 && clock >= gpu.spec->model.clock_idle; clock -= kClockStep)
    clocks.push_back(static_cast<unsigned>(clock));
  return clocks;
}

bool has(const std::vector<unsigned>& clocks, unsigned clock) { return std::ranges::count(clocks, clock) > 0; }

Return give_clocks(const std::vector<unsigned>& clocks, unsigned* count, unsigned* out) {
  if (clocks.empty()) return kNotSupported;
  const unsigned room = *count;
  *count = static_cast<unsigned>(clocks.size());
  if (room < clocks.size() || out == nullptr) return kInsufficientSize;
  std::ranges::copy(clocks, out);
  return kSuccess;
}

bool has_application_clocks(const sim::GpuView& gpu) {
  return sim::at(gpu.readings, Field::clock_graphics_application).has_value();
}

/// Application clocks are root's until the restriction is lifted.
Return change_application_clocks(Device device, const Change& change) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (target.instance != nullptr || !has_application_clocks(*target.gpu)) return kNotSupported;
  if (target.gpu->settings.clocks_are_free == 0) return change_gpu(device, change);
  Return result = kSuccess;
  const auto done = fleet()->update([&](sim::Body& body, const sim::FleetSpec& spec) {
    result = change(body, spec, target);
    return result == kSuccess;
  });
  return done ? result : kUnknown;
}

struct Lock {
  std::uint32_t sim::GpuSettings::* low;
  std::uint32_t sim::GpuSettings::* high;
  int since;  ///< compute capability, times ten
};
constexpr Lock kGraphicsLock{&sim::GpuSettings::clock_low, &sim::GpuSettings::clock_high, 70};
constexpr Lock kMemoryLock{&sim::GpuSettings::memory_clock_low, &sim::GpuSettings::memory_clock_high, 80};

Return set_lock(Device device, const Lock& lock, unsigned low, unsigned high) {
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    const auto& model = target.gpu->spec->model;
    if (model.capability_major * 10 + model.capability_minor < lock.since) return kNotSupported;
    if (low > high) return kInvalidArgument;
    body.settings[target.handle.gpu].*lock.low = low;
    body.settings[target.handle.gpu].*lock.high = high;
    return kSuccess;
  });
}

/// A lock takes the nearest clocks that the product has.
Return lock_clocks(Device device, const Lock& lock, Field highest, unsigned low, unsigned high) {
  unsigned most = 0;
  if (high == 0) return kInvalidArgument;
  if (const Return code = number(device, highest, &most); code != kSuccess) return code;
  return set_lock(device, lock, low > high ? low : std::min(low, most), std::min(high, most));
}

}  // namespace

extern "C" {

Return nvmlDeviceGetSupportedMemoryClocks(Device device, unsigned* count, unsigned* out) {
  if (count == nullptr) return kInvalidArgument;
  Target target;
  const Return code = resolve(device, target);
  return code == kSuccess ? give_clocks(memory_clocks(*target.gpu), count, out) : code;
}

Return nvmlDeviceGetSupportedGraphicsClocks(Device device, unsigned memory, unsigned* count, unsigned* out) {
  if (count == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  return has(memory_clocks(*target.gpu), memory) ? give_clocks(graphics_clocks(*target.gpu), count, out) : kNotFound;
}

Return nvmlDeviceGetDefaultApplicationsClock(Device device, int type, unsigned* out) {
  unsigned set = 0;
  if (const Return code = nvmlDeviceGetApplicationsClock(device, type, &set); code != kSuccess) return code;
  return nvmlDeviceGetMaxClockInfo(device, type, out);
}

Return nvmlDeviceGetMaxCustomerBoostClock(Device device, int type, unsigned* out) {
  return nvmlDeviceGetMaxClockInfo(device, type, out);
}

Return nvmlDeviceSetApplicationsClocks(Device device, unsigned memory, unsigned graphics) {
  return change_application_clocks(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    if (!has(memory_clocks(*target.gpu), memory) || !has(graphics_clocks(*target.gpu), graphics))
      return kInvalidArgument;
    const bool kept = sim::pin(body, target.handle.gpu, Field::clock_memory_application, memory) &&
                      sim::pin(body, target.handle.gpu, Field::clock_graphics_application, graphics);
    return kept ? kSuccess : kInsufficientResources;
  });
}
Return nvmlDeviceResetApplicationsClocks(Device device) {
  return change_application_clocks(device, [](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    sim::unpin(body, target.handle.gpu, Field::clock_memory_application);
    sim::unpin(body, target.handle.gpu, Field::clock_graphics_application);
    return kSuccess;
  });
}

Return nvmlDeviceGetAPIRestriction(Device device, int api, int* restricted) {
  if (restricted == nullptr || api < 0 || api > kRestrictedAutoBoost) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (api == kRestrictedAutoBoost || !has_application_clocks(*target.gpu)) return kNotSupported;
  *restricted = target.gpu->settings.clocks_are_free == 0 ? 1 : 0;
  return kSuccess;
}
Return nvmlDeviceSetAPIRestriction(Device device, int api, int restricted) {
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    if (api < 0 || api > kRestrictedAutoBoost || restricted < 0 || restricted > 1) return kInvalidArgument;
    if (api == kRestrictedAutoBoost || !has_application_clocks(*target.gpu)) return kNotSupported;
    body.settings[target.handle.gpu].clocks_are_free = restricted == 0 ? 1 : 0;
    return kSuccess;
  });
}

Return nvmlDeviceSetGpuLockedClocks(Device device, unsigned low, unsigned high) {
  return lock_clocks(device, kGraphicsLock, Field::clock_graphics_max, low, high);
}
Return nvmlDeviceResetGpuLockedClocks(Device device) { return set_lock(device, kGraphicsLock, 0, 0); }
Return nvmlDeviceSetMemoryLockedClocks(Device device, unsigned low, unsigned high) {
  return lock_clocks(device, kMemoryLock, Field::clock_memory_max, low, high);
}
Return nvmlDeviceResetMemoryLockedClocks(Device device) { return set_lock(device, kMemoryLock, 0, 0); }

}  // extern "C"
}  // namespace gpuwarden::nvml
