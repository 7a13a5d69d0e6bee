// SPDX-License-Identifier: Apache-2.0
// What callers may change on a whole GPU: modes, power, fans, counters. Changes live in the fleet's shared state.
#include "sim/core/settings.hpp"

#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;
using sim::Field;

constexpr unsigned kSlowestFan = 30;  // percent that a manual setting may ask for

Return keep(sim::Body& body, const Target& target, Field field, double value) {
  return sim::pin(body, target.handle.gpu, field, value) ? kSuccess : kInsufficientResources;
}

/// Sets a mode that the product has; `highest` is the last of its values.
Return set_mode(Device device, Field field, int mode, int highest) {
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    if (mode < 0 || mode > highest) return kInvalidArgument;
    return sim::at(target.gpu->readings, field) ? keep(body, target, field, mode) : kNotSupported;
  });
}

Return set_power_limit(Device device, double watts) {
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    const auto low = sim::at(target.gpu->readings, Field::power_limit_min);
    const auto high = sim::at(target.gpu->readings, Field::power_limit_max);
    if (!low || !high || !sim::at(target.gpu->readings, Field::power_limit)) return kNotSupported;
    return watts < *low || watts > *high ? kInvalidArgument : keep(body, target, Field::power_limit, watts);
  });
}

/// Changes the settings of a GPU's only fan.
template <class Set>
Return set_fan(Device device, unsigned fan, Set set) {
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    if (!sim::at(target.gpu->readings, Field::fan_speed)) return kNotSupported;
    return fan == 0 ? set(body.settings[target.handle.gpu], target) : kInvalidArgument;
  });
}

Return fan_of(Device device, unsigned fan, Target& target) {
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (!sim::at(target.gpu->readings, Field::fan_speed)) return kNotSupported;
  return fan == 0 ? kSuccess : kInvalidArgument;
}

/// The handle of the GPU that a PCI address names.
Return gpu_at(const PciInfo* pci, Device& device) {
  if (const Return code = require_init(); code != kSuccess) return code;
  if (pci == nullptr) return kInvalidArgument;
  return nvmlDeviceGetHandleByPciBusId_v2(pci->bus_id[0] != '\0' ? pci->bus_id : pci->bus_id_legacy, &device);
}

}  // namespace

extern "C" {

Return nvmlDeviceSetPersistenceMode(Device device, int mode) { return set_mode(device, Field::persistence, mode, 1); }

// EXCLUSIVE_THREAD is what drivers no longer have.
Return nvmlDeviceSetComputeMode(Device device, int mode) {
  return mode == kComputeModeExclusiveThread
             ? kNotSupported
             : set_mode(device, Field::compute_mode, mode, kComputeModeExclusiveProcess);
}

Return nvmlDeviceGetPowerManagementMode(Device device, int* mode) {
  unsigned limit = 0;
  if (mode == nullptr) return kInvalidArgument;
  const Return code = number(device, Field::power_limit, &limit);
  if (code == kSuccess) *mode = 1;
  return code;
}

Return nvmlDeviceSetPowerManagementLimit(Device device, unsigned milliwatts) {
  return set_power_limit(device, milliwatts / 1000.0);
}
Return nvmlDeviceSetPowerManagementLimit_v2(Device device, PowerValue* value) {
  if (value == nullptr) return kInvalidArgument;
  if (value->version != kPowerValueV2) return kArgumentVersionMismatch;
  return value->scope == kPowerScopeGpu ? set_power_limit(device, value->milliwatts / 1000.0) : kNotSupported;
}

Return nvmlDeviceSetFanSpeed_v2(Device device, unsigned fan, unsigned percent) {
  return set_fan(device, fan, [&](sim::GpuSettings& settings, const Target&) {
    if (percent < kSlowestFan || percent > 100) return kInvalidArgument;
    settings.fan_is_manual = 1;
    settings.fan_percent = percent;
    return kSuccess;
  });
}
Return nvmlDeviceSetDefaultFanSpeed_v2(Device device, unsigned fan) {
  return nvmlDeviceSetFanControlPolicy(device, fan, kFanPolicyAutomatic);
}
Return nvmlDeviceSetFanControlPolicy(Device device, unsigned fan, unsigned policy) {
  return set_fan(device, fan, [&](sim::GpuSettings& settings, const Target& target) {
    if (policy > kFanPolicyManual) return kInvalidArgument;
    const bool begins = policy == kFanPolicyManual && settings.fan_is_manual == 0;
    if (begins) settings.fan_percent = static_cast<std::uint32_t>(*sim::at(target.gpu->readings, Field::fan_speed));
    settings.fan_is_manual = policy;
    return kSuccess;
  });
}
Return nvmlDeviceGetFanControlPolicy_v2(Device device, unsigned fan, unsigned* policy) {
  Target target;
  if (policy == nullptr) return kInvalidArgument;
  const Return code = fan_of(device, fan, target);
  if (code == kSuccess) *policy = target.gpu->settings.fan_is_manual != 0 ? kFanPolicyManual : kFanPolicyAutomatic;
  return code;
}
Return nvmlDeviceGetTargetFanSpeed(Device device, unsigned fan, unsigned* percent) {
  Target target;
  if (percent == nullptr) return kInvalidArgument;
  if (const Return code = fan_of(device, fan, target); code != kSuccess) return code;
  *percent = target.gpu->settings.fan_percent;
  return target.gpu->settings.fan_is_manual != 0 ? kSuccess : number(device, Field::fan_speed, percent);
}
Return nvmlDeviceGetMinMaxFanSpeed(Device device, unsigned* low, unsigned* high) {
  Target target;
  if (low == nullptr || high == nullptr) return kInvalidArgument;
  const Return code = fan_of(device, 0, target);
  if (code == kSuccess) {
    *low = kSlowestFan;
    *high = 100;
  }
  return code;
}

// The mode that is set comes into force with the next reset of the GPU.
Return nvmlDeviceSetEccMode(Device device, int mode) { return set_mode(device, Field::ecc_pending, mode, 1); }
Return nvmlDeviceGetDefaultEccMode(Device device, int* mode) {
  const Return code = number(device, Field::ecc_enabled, mode);
  if (code == kSuccess) *mode = 1;
  return code;
}
Return nvmlDeviceClearEccErrorCounts(Device device, int counter) {
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec& spec, const Target& target) {
    if (counter != kEccVolatile && counter != kEccAggregate) return kInvalidArgument;
    if (!sim::at(target.gpu->readings, Field::ecc_enabled)) return kNotSupported;
    sim::clear_ecc(body, spec, target.handle.gpu, counter);
    return kSuccess;
  });
}
// The model keeps all errors in device memory.
Return nvmlDeviceGetDetailedEccErrors(Device device, int error, int counter, EccErrorCounts* out) {
  if (out == nullptr) return kInvalidArgument;
  *out = {};
  return nvmlDeviceGetTotalEccErrors(device, error, counter, &out->device_memory);
}

Return nvmlDeviceResetNvLinkErrorCounters(Device device, unsigned link) {
  int active = 0;
  if (const Return code = nvmlDeviceGetNvLinkState(device, link, &active); code != kSuccess) return code;
  return change_gpu(device, [](sim::Body& body, const sim::FleetSpec& spec, const Target& target) {
    sim::clear_nvlink_errors(body, spec, target.handle.gpu);
    return kSuccess;
  });
}

// A GPU that is drained takes no new CUDA contexts.
Return nvmlDeviceModifyDrainState(PciInfo* pci, int state) {
  Device device = nullptr;
  if (const Return code = gpu_at(pci, device); code != kSuccess) return code;
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    if (state != 0 && state != 1) return kInvalidArgument;
    if (state == 1 && !target.gpu->processes.empty()) return kInUse;
    body.settings[target.handle.gpu].is_drained = static_cast<std::uint32_t>(state);
    return kSuccess;
  });
}
Return nvmlDeviceQueryDrainState(PciInfo* pci, int* state) {
  Device device = nullptr;
  Target target;
  if (state == nullptr) return kInvalidArgument;
  if (const Return code = gpu_at(pci, device); code != kSuccess) return code;
  const Return code = resolve(device, target);
  if (code == kSuccess) *state = static_cast<int>(target.gpu->settings.is_drained);
  return code;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
