// SPDX-License-Identifier: Apache-2.0
// MIG mode, and making and ending GPU instances.
#include <algorithm>
#include <cstring>
#include <string>

#include "sim/core/mig.hpp"
#include "sim/core/settings.hpp"
#include "sim/nvml/mig_handles.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;
using sim::Field;

constexpr unsigned kProfiles = 0x11;  // NVML_GPU_INSTANCE_PROFILE_COUNT

/// A GPU in MIG mode; anything else is not supported.
Return mig_gpu(Device device, Target& target) {
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  return target.gpu->mig && target.instance == nullptr ? kSuccess : kNotSupported;
}

/// The model's profile with an id, as an index into its table.
Return profile_with_id(Device device, unsigned id, Target& target, std::uint8_t& index) {
  if (const Return code = mig_gpu(device, target); code != kSuccess) return code;
  const auto found = sim::mig_profile_of(*target.gpu->spec, id);
  if (!found) return kInvalidArgument;
  index = *found;
  return kSuccess;
}

GpuInstanceProfileInfo describe(const sim::MigProfile& profile) {
  const auto number = [](int value) { return static_cast<unsigned>(value); };
  return {.id = profile.shape->id,
          .peer_to_peer = 0,
          .slices = number(profile.shape->slices),
          .instances = number(profile.shape->most),
          .multiprocessors = number(profile.multiprocessors),
          .copy_engines = number(profile.shape->slices),
          .decoders = number(profile.decoders),
          .encoders = 0,
          .jpeg_engines = number(profile.jpeg_engines),
          .ofa_engines = number(profile.ofa_engines),
          .memory_mib = static_cast<unsigned long long>(profile.memory_mib)};
}

/// The later layouts: the same with a name.
Return fill_versioned(const sim::MigProfile& profile, GpuInstanceProfileInfoV2* out) {
  const GpuInstanceProfileInfo info = describe(profile);
  const std::string name = "MIG " + std::string(profile.name);
  if (out->version == version_word<GpuInstanceProfileInfoV2>(2)) {
    std::memcpy(&out->id, &info, sizeof info - sizeof info.memory_mib);
    out->memory_mib = info.memory_mib;
    return copy_text(name, out->name, sizeof out->name);
  }
  if (out->version != version_word<GpuInstanceProfileInfoV3>(3)) return kArgumentVersionMismatch;
  auto& third = *reinterpret_cast<GpuInstanceProfileInfoV3*>(out);
  third.id = info.id;
  std::memcpy(&third.slices, &info.slices, sizeof(unsigned) * 8);
  third.memory_mib = info.memory_mib;
  third.capabilities = 0;
  return copy_text(name, third.name, sizeof third.name);
}

Return profile_by_number(Device device, unsigned profile, sim::MigProfile& out) {
  Target target;
  if (profile >= kProfiles) return kInvalidArgument;
  if (const Return code = mig_gpu(device, target); code != kSuccess) return code;
  for (const sim::MigProfile& one : sim::mig_profiles(target.gpu->spec->model)) {
    if (one.shape->profile != profile) continue;
    out = one;
    return kSuccess;
  }
  return kNotSupported;
}

Return create(Device device, unsigned id, std::optional<unsigned> start, GpuInstance* out) {
  if (out == nullptr) return kInvalidArgument;
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    Target again;
    std::uint8_t profile = 0;
    if (const Return code = profile_with_id(device, id, again, profile); code != kSuccess) return code;
    const std::uint32_t gpu = target.handle.gpu;
    unsigned slot = 0;
    const auto made = sim::create_gpu_instance(body.mig[gpu], *target.gpu->spec, profile, start, slot);
    if (made != sim::MigChange::done) return kInsufficientResources;
    *out = to_gpu_instance({gpu, slot});
    return kSuccess;
  });
}

}  // namespace

extern "C" {

Return nvmlDeviceSetMigMode(Device device, unsigned mode, Return* activation) {
  if (activation == nullptr) return kInvalidArgument;
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    const std::uint32_t gpu = target.handle.gpu;
    if (mode > 1) return kInvalidArgument;
    if (!sim::at(target.gpu->readings, Field::mig_enabled)) return kNotSupported;
    if (!sim::pin(body, gpu, Field::mig_pending, mode)) return kInsufficientResources;
    *activation = kSuccess;
    if (target.gpu->mig == (mode == 1)) return kSuccess;
    const bool is_cut = std::ranges::any_of(body.mig[gpu].gpu, [](const auto& one) { return one.used != 0; });
    // In use, the mode waits for a reset.
    if (!target.gpu->processes.empty() || (mode == 0 && is_cut)) {
      *activation = kInUse;
      return kSuccess;
    }
    body.mig[gpu] = {};
    return sim::pin(body, gpu, Field::mig_enabled, mode) ? kSuccess : kInsufficientResources;
  });
}

Return nvmlDeviceGetGpuInstanceProfileInfo(Device device, unsigned profile, GpuInstanceProfileInfo* out) {
  if (out == nullptr) return kInvalidArgument;
  sim::MigProfile found{};
  const Return code = profile_by_number(device, profile, found);
  if (code == kSuccess) *out = describe(found);
  return code;
}
Return nvmlDeviceGetGpuInstanceProfileInfoV(Device device, unsigned profile, GpuInstanceProfileInfoV2* out) {
  if (out == nullptr) return kInvalidArgument;
  sim::MigProfile found{};
  const Return code = profile_by_number(device, profile, found);
  return code == kSuccess ? fill_versioned(found, out) : code;
}
Return nvmlDeviceGetGpuInstanceProfileInfoByIdV(Device device, unsigned id, GpuInstanceProfileInfoV2* out) {
  if (out == nullptr) return kInvalidArgument;
  Target target;
  std::uint8_t index = 0;
  if (const Return code = profile_with_id(device, id, target, index); code != kSuccess) return code;
  return fill_versioned(sim::mig_profiles(target.gpu->spec->model)[index], out);
}

Return nvmlDeviceGetGpuInstanceRemainingCapacity(Device device, unsigned id, unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  Target target;
  std::uint8_t index = 0;
  if (const Return code = profile_with_id(device, id, target, index); code != kSuccess) return code;
  *count = sim::remaining(target.gpu->mig_state, *target.gpu->spec, index);
  return kSuccess;
}

// All places of the profile, taken ones included.
Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned id, Placement* out, unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  Target target;
  std::uint8_t index = 0;
  if (const Return code = profile_with_id(device, id, target, index); code != kSuccess) return code;
  const sim::MigShape& shape = *sim::mig_profiles(target.gpu->spec->model)[index].shape;
  const auto size = static_cast<unsigned>(shape.memory_slices);
  *count = static_cast<unsigned>(shape.places);
  for (unsigned i = 0; i < *count && out != nullptr; ++i) out[i] = {i * size, size};
  return kSuccess;
}
Return nvmlDeviceGetGpuInstancePossiblePlacements(Device device, unsigned id, Placement* out, unsigned* count) {
  return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, id, out, count);
}

Return nvmlDeviceCreateGpuInstance(Device device, unsigned id, GpuInstance* out) {
  return create(device, id, std::nullopt, out);
}
Return nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned id, const Placement* place, GpuInstance* out) {
  return place == nullptr ? kInvalidArgument : create(device, id, place->start, out);
}

Return nvmlDeviceGetGpuInstances(Device device, unsigned id, GpuInstance* out, unsigned* count) {
  if (count == nullptr || out == nullptr) return kInvalidArgument;
  Target target;
  std::uint8_t index = 0;
  if (const Return code = profile_with_id(device, id, target, index); code != kSuccess) return code;
  *count = 0;
  for (unsigned slot = 0; slot < sim::kMaxInstances; ++slot) {
    const auto& row = target.gpu->mig_state.gpu[slot];
    if (row.used != 0 && row.profile == index) out[(*count)++] = to_gpu_instance({target.handle.gpu, slot});
  }
  return kSuccess;
}

Return nvmlDeviceGetGpuInstanceById(Device device, unsigned id, GpuInstance* out) {
  if (out == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = mig_gpu(device, target); code != kSuccess) return code;
  for (unsigned slot = 0; slot < sim::kMaxInstances; ++slot) {
    const auto& row = target.gpu->mig_state.gpu[slot];
    if (row.used == 0 || row.id != id) continue;
    *out = to_gpu_instance({target.handle.gpu, slot});
    return kSuccess;
  }
  return kNotFound;
}

Return nvmlGpuInstanceDestroy(GpuInstance instance) {
  GpuInstanceTarget found;
  if (const Return code = resolve(instance, found); code != kSuccess) return code;
  return change_gpu(to_device({found.gpu, std::nullopt}), [&](sim::Body& body, const sim::FleetSpec&, const Target&) {
    return to_return(sim::destroy_gpu_instance(body.mig[found.gpu], found.slot));
  });
}

Return nvmlGpuInstanceGetInfo(GpuInstance instance, GpuInstanceInfo* out) {
  if (out == nullptr) return kInvalidArgument;
  GpuInstanceTarget found;
  if (const Return code = resolve(instance, found); code != kSuccess) return code;
  const auto profiles = sim::mig_profiles(found.target.gpu->spec->model);
  *out = {.device = to_device({found.gpu, std::nullopt}),
          .id = found.row->id,
          .profile = found.row->profile < profiles.size() ? profiles[found.row->profile].shape->id : kNoInstance,
          .placement = {found.row->start, found.row->size}};
  return kSuccess;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
