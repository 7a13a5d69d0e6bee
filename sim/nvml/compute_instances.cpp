// SPDX-License-Identifier: Apache-2.0
// MIG's compute instances: each is a MIG device that programs can use.
#include <algorithm>
#include <array>
#include <string>

#include "sim/core/mig.hpp"
#include "sim/nvml/mig_handles.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;

/// Compute slices of each profile; its number is its id, too.
constexpr std::array kSlices{1, 2, 3, 4, 7};
constexpr unsigned kComputeProfiles = 8;  // NVML_COMPUTE_INSTANCE_PROFILE_COUNT

unsigned profile_of(int slices) { return static_cast<unsigned>(std::ranges::find(kSlices, slices) - kSlices.begin()); }

/// A profile that the GPU instance has room for when it is empty.
Return slices_with_id(GpuInstance instance, unsigned id, GpuInstanceTarget& found, int& slices) {
  if (const Return code = resolve(instance, found); code != kSuccess) return code;
  if (id >= kSlices.size()) return kInvalidArgument;
  slices = kSlices[id];
  return slices <= sim::slices_of(*found.row, *found.target.gpu->spec) ? kSuccess : kNotSupported;
}

/// The GPU instance's own profile; nothing where only the fleet's file knows it.
const sim::MigProfile* profile_of(const GpuInstanceTarget& found, const std::vector<sim::MigProfile>& profiles) {
  return found.row->profile < profiles.size() ? &profiles[found.row->profile] : nullptr;
}

struct Described {
  ComputeInstanceProfileInfo info{};
  std::string name;
};

Return describe(GpuInstance instance, unsigned profile, unsigned engines, Described& out) {
  if (profile >= kComputeProfiles || engines != 0) return kInvalidArgument;
  GpuInstanceTarget found;
  if (const Return code = resolve(instance, found); code != kSuccess) return code;
  const auto profiles = sim::mig_profiles(found.target.gpu->spec->model);
  const sim::MigProfile* whole = profile_of(found, profiles);
  if (whole == nullptr || profile >= kSlices.size() || kSlices[profile] > whole->shape->slices) return kNotSupported;
  const int slices = kSlices[profile];
  const auto number = [](int value) { return static_cast<unsigned>(value); };
  out.info = {.id = profile,
              .slices = number(slices),
              .instances = number(whole->shape->slices / slices),
              .multiprocessors = number(sim::multiprocessors_of(*whole, slices, profiles.front().multiprocessors)),
              .copy_engines = number(whole->shape->slices),
              .decoders = number(whole->decoders),
              .encoders = 0,
              .jpeg_engines = number(whole->jpeg_engines),
              .ofa_engines = number(whole->ofa_engines)};
  out.name = "MIG " + sim::device_profile(whole->name, slices, whole->shape->slices);
  return kSuccess;
}

Return create(GpuInstance instance, unsigned id, std::optional<unsigned> start, ComputeInstance* out) {
  if (out == nullptr) return kInvalidArgument;
  GpuInstanceTarget found;
  int slices = 0;
  if (const Return code = slices_with_id(instance, id, found, slices); code != kSuccess) return code;
  return change_gpu(
      to_device({found.gpu, std::nullopt}), [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
        sim::MigState& state = body.mig[found.gpu];
        const auto made =
            sim::create_compute_instance(state, *target.gpu->spec, found.slot, {slices, start}, ++body.mig_number);
        if (made == sim::MigChange::done) *out = to_compute_instance({found.gpu, sim::newest_compute_instance(state)});
        return to_return(made);
      });
}

/// The compute instances of a GPU instance that `is_it` accepts.
template <class Visit>
void each_of(const GpuInstanceTarget& found, Visit visit) {
  for (unsigned slot = 0; slot < sim::kMaxInstances; ++slot) {
    const auto& row = found.target.gpu->mig_state.compute[slot];
    if (row.used != 0 && row.gpu_instance == found.row->id) visit(slot, row);
  }
}

}  // namespace

extern "C" {

Return nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance instance, unsigned profile, unsigned engines,
                                                    ComputeInstanceProfileInfo* out) {
  Described described;
  if (out == nullptr) return kInvalidArgument;
  const Return code = describe(instance, profile, engines, described);
  if (code == kSuccess) *out = described.info;
  return code;
}
Return nvmlGpuInstanceGetComputeInstanceProfileInfoV(GpuInstance instance, unsigned profile, unsigned engines,
                                                     ComputeInstanceProfileInfoV2* out) {
  Described described;
  if (out == nullptr) return kInvalidArgument;
  if (const Return code = describe(instance, profile, engines, described); code != kSuccess) return code;
  const bool is_third = out->version == version_word<ComputeInstanceProfileInfoV3>(3);
  if (!is_third && out->version != version_word<ComputeInstanceProfileInfoV2>(2)) return kArgumentVersionMismatch;
  out->info = described.info;
  if (is_third) reinterpret_cast<ComputeInstanceProfileInfoV3*>(out)->capabilities = 0;
  return copy_text(described.name, out->name, sizeof out->name);
}

Return nvmlGpuInstanceGetComputeInstanceRemainingCapacity(GpuInstance instance, unsigned id, unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  GpuInstanceTarget found;
  int slices = 0;
  if (const Return code = slices_with_id(instance, id, found, slices); code != kSuccess) return code;
  const auto places =
      sim::free_compute_places(found.target.gpu->mig_state, *found.target.gpu->spec, found.slot, slices);
  *count = 0;
  int end = 0;  // of the last that was counted: places overlap
  for (const std::uint8_t start : places) {
    if (start < end) continue;
    end = start + slices;
    ++*count;
  }
  return kSuccess;
}

Return nvmlGpuInstanceGetComputeInstancePossiblePlacements(GpuInstance instance, unsigned id, Placement* out,
                                                           unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  GpuInstanceTarget found;
  int slices = 0;
  if (const Return code = slices_with_id(instance, id, found, slices); code != kSuccess) return code;
  const auto size = static_cast<unsigned>(slices);
  *count = static_cast<unsigned>(sim::slices_of(*found.row, *found.target.gpu->spec)) - size + 1;
  for (unsigned i = 0; i < *count && out != nullptr; ++i) out[i] = {i, size};
  return kSuccess;
}

Return nvmlGpuInstanceCreateComputeInstance(GpuInstance instance, unsigned id, ComputeInstance* out) {
  return create(instance, id, std::nullopt, out);
}
Return nvmlGpuInstanceCreateComputeInstanceWithPlacement(GpuInstance instance, unsigned id, const Placement* place,
                                                         ComputeInstance* out) {
  return place == nullptr ? kInvalidArgument : create(instance, id, place->start, out);
}

Return nvmlGpuInstanceGetComputeInstances(GpuInstance instance, unsigned id, ComputeInstance* out, unsigned* count) {
  if (count == nullptr || out == nullptr) return kInvalidArgument;
  GpuInstanceTarget found;
  int slices = 0;
  if (const Return code = slices_with_id(instance, id, found, slices); code != kSuccess) return code;
  *count = 0;
  each_of(found, [&](unsigned slot, const sim::SharedComputeInstance& row) {
    if (row.slices == slices) out[(*count)++] = to_compute_instance({found.gpu, slot});
  });
  return kSuccess;
}

Return nvmlGpuInstanceGetComputeInstanceById(GpuInstance instance, unsigned id, ComputeInstance* out) {
  if (out == nullptr) return kInvalidArgument;
  GpuInstanceTarget found;
  if (const Return code = resolve(instance, found); code != kSuccess) return code;
  Return code = kNotFound;
  each_of(found, [&](unsigned slot, const sim::SharedComputeInstance& row) {
    if (row.id != id) return;
    *out = to_compute_instance({found.gpu, slot});
    code = kSuccess;
  });
  return code;
}

// Nobody may be at work on it.
Return nvmlComputeInstanceDestroy(ComputeInstance instance) {
  ComputeInstanceTarget found;
  if (const Return code = resolve(instance, found); code != kSuccess) return code;
  return change_gpu(
      to_device({found.gpu, std::nullopt}), [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
        const bool is_used = std::ranges::any_of(target.gpu->processes, [&](const auto& process) {
          return process.gpu_instance == std::uint32_t{found.row->gpu_instance};
        });
        return is_used ? kInUse : to_return(sim::destroy_compute_instance(body.mig[found.gpu], found.slot));
      });
}

Return nvmlComputeInstanceGetInfo_v2(ComputeInstance instance, ComputeInstanceInfo* out) {
  if (out == nullptr) return kInvalidArgument;
  ComputeInstanceTarget found;
  if (const Return code = resolve(instance, found); code != kSuccess) return code;
  *out = {.device = to_device({found.gpu, std::nullopt}),
          .gpu_instance = nullptr,
          .id = found.row->id,
          .profile = profile_of(found.row->slices),
          .placement = {found.row->start, found.row->slices}};
  return nvmlDeviceGetGpuInstanceById(out->device, found.row->gpu_instance, &out->gpu_instance);
}
Return nvmlComputeInstanceGetInfo(ComputeInstance instance, ComputeInstanceInfo* out) {
  return nvmlComputeInstanceGetInfo_v2(instance, out);
}

}  // extern "C"
}  // namespace gpuwarden::nvml
