// SPDX-License-Identifier: Apache-2.0
#include "sim/core/mig.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/identity.hpp"

namespace gpuwarden::sim {
namespace {

unsigned bits(unsigned start, unsigned size) { return ((1U << size) - 1U) << start; }

unsigned taken_memory(const MigState& state) {
  unsigned taken = 0;
  for (const SharedGpuInstance& one : state.gpu) {
    if (one.used != 0) taken |= bits(one.start, one.size);
  }
  return taken;
}

unsigned taken_compute(const MigState& state, std::uint8_t gpu_instance) {
  unsigned taken = 0;
  for (const SharedComputeInstance& one : state.compute) {
    if (one.used != 0 && one.gpu_instance == gpu_instance) taken |= bits(one.start, one.slices);
  }
  return taken;
}

template <class Instances>
auto* unused(Instances& instances) {
  const auto found = std::ranges::find(instances, 0, [](const auto& one) { return one.used; });
  return found == std::end(instances) ? nullptr : &*found;
}

SharedGpuInstance* by_id(MigState& state, unsigned id) {
  auto* const found = std::ranges::find_if(state.gpu, [&](const auto& one) { return one.used != 0 && one.id == id; });
  return found == std::end(state.gpu) ? nullptr : found;
}

/// The lowest id from `first` on that no GPU instance has.
std::uint8_t free_id(MigState& state, unsigned first) {
  while (by_id(state, first) != nullptr) ++first;
  return static_cast<std::uint8_t>(first);
}

/// An instance of the fleet's file: it lies where there is room, and nowhere in particular where nobody can tell.
void describe(MigState& state, const MigInstance& instance, const std::vector<MigProfile>& profiles) {
  SharedGpuInstance* row = unused(state.gpu);
  if (row == nullptr || by_id(state, instance.gpu_instance) != nullptr) return;
  *row = {1, static_cast<std::uint8_t>(instance.gpu_instance), kNoProfile, 0, 0};
  const auto found = std::ranges::find(profiles, instance.profile, &MigProfile::name);
  if (found == profiles.end()) return;
  const auto places = free_places(state, *found);
  if (places.empty()) return;
  row->profile = static_cast<std::uint8_t>(found - profiles.begin());
  row->start = places.front();
  row->size = static_cast<std::uint8_t>(found->shape->memory_slices);
}

MigInstance made_device(const MigState& state, const GpuSpec& gpu, const std::vector<MigProfile>& profiles,
                        const SharedComputeInstance& row) {
  MigState copy = state;
  const SharedGpuInstance* whole = by_id(copy, row.gpu_instance);
  MigInstance device;
  device.gpu_instance = row.gpu_instance;
  device.compute_instance = row.id;
  device.compute_slices = row.slices;
  device.uuid = mig_uuid(gpu, row.number);
  if (whole == nullptr || whole->profile >= profiles.size()) return device;
  const MigProfile& profile = profiles[whole->profile];
  device.gpu_slices = profile.shape->slices;
  device.profile = device_profile(profile.name, row.slices, profile.shape->slices);
  device.memory_mib = profile.memory_mib;
  device.multiprocessors = multiprocessors_of(profile, row.slices, profiles.front().multiprocessors);
  return device;
}

}  // namespace

std::string device_profile(std::string_view gpu_profile, int slices, int of_slices) {
  return slices == of_slices ? std::string(gpu_profile) : fmt::format("{}c.{}", slices, gpu_profile);
}

int multiprocessors_of(const MigProfile& profile, int slices, int one_slice) {
  return slices == profile.shape->slices ? profile.multiprocessors : slices * one_slice;
}

MigState described_instances(const GpuSpec& gpu) {
  MigState state{};
  const auto profiles = mig_profiles(gpu.model);
  for (std::size_t i = 0; i < std::min(gpu.instances.size(), kMaxInstances); ++i) {
    const MigInstance& instance = gpu.instances[i];
    describe(state, instance, profiles);
    state.compute[i] = {1,
                        static_cast<std::uint8_t>(instance.gpu_instance),
                        static_cast<std::uint8_t>(instance.compute_instance),
                        static_cast<std::uint8_t>(instance.compute_slices),
                        0,
                        static_cast<std::uint8_t>(i + 1),
                        0};
  }
  return state;
}

std::vector<MigInstance> mig_devices(const MigState& state, const GpuSpec& gpu) {
  std::vector<MigInstance> devices;
  std::vector<MigProfile> profiles;
  for (std::size_t slot = 0; slot < kMaxInstances; ++slot) {
    const SharedComputeInstance& row = state.compute[slot];
    if (row.used == 0) continue;
    const bool described = row.described > 0 && row.described <= gpu.instances.size();
    if (!described && profiles.empty()) profiles = mig_profiles(gpu.model);
    devices.push_back(described ? gpu.instances[row.described - 1U] : made_device(state, gpu, profiles, row));
    devices.back().slot = static_cast<std::uint32_t>(slot);
  }
  return devices;
}

std::optional<std::uint8_t> mig_profile_of(const GpuSpec& gpu, unsigned id) {
  const auto profiles = mig_profiles(gpu.model);
  const auto found = std::ranges::find(profiles, id, [](const MigProfile& one) { return one.shape->id; });
  if (found == profiles.end()) return std::nullopt;
  return static_cast<std::uint8_t>(found - profiles.begin());
}

int slices_of(const SharedGpuInstance& instance, const GpuSpec& gpu) {
  const auto profiles = mig_profiles(gpu.model);
  if (instance.profile < profiles.size()) return profiles[instance.profile].shape->slices;
  const auto described = std::ranges::find(gpu.instances, std::uint32_t{instance.id}, &MigInstance::gpu_instance);
  return described == gpu.instances.end() ? 0 : described->compute_slices;
}

std::vector<std::uint8_t> free_places(const MigState& state, const MigProfile& profile) {
  std::vector<std::uint8_t> places;
  const unsigned taken = taken_memory(state);
  const auto size = static_cast<unsigned>(profile.shape->memory_slices);
  for (int i = 0; i < profile.shape->places; ++i) {
    const unsigned start = static_cast<unsigned>(i) * size;
    if ((taken & bits(start, size)) == 0) places.push_back(static_cast<std::uint8_t>(start));
  }
  return places;
}

unsigned remaining(MigState state, const GpuSpec& gpu, std::uint8_t profile) {
  unsigned made = 0;
  unsigned slot = 0;
  while (create_gpu_instance(state, gpu, profile, std::nullopt, slot) == MigChange::done) ++made;
  return made;
}

MigChange create_gpu_instance(MigState& state, const GpuSpec& gpu, std::uint8_t profile, std::optional<unsigned> start,
                              unsigned& slot) {
  const auto profiles = mig_profiles(gpu.model);
  const MigProfile& wanted = profiles[profile];
  int slices = wanted.shape->slices;
  int same = 0;
  for (const SharedGpuInstance& one : state.gpu) {
    if (one.used == 0) continue;
    slices += slices_of(one, gpu);
    same += one.profile == profile ? 1 : 0;
  }
  const auto places = free_places(state, wanted);
  // Three slices go to the far end, so that four fit before them.
  std::optional<std::uint8_t> place;
  if (!places.empty()) place = wanted.shape->slices == 3 ? places.back() : places.front();
  if (start) {
    place.reset();
    if (std::ranges::count(places, *start) > 0) place = static_cast<std::uint8_t>(*start);
  }
  SharedGpuInstance* row = unused(state.gpu);
  if (!place || row == nullptr || slices > static_cast<int>(kMaxInstances) || same >= wanted.shape->most)
    return MigChange::no_room;
  *row = {1, free_id(state, wanted.shape->first), profile, *place,
          static_cast<std::uint8_t>(wanted.shape->memory_slices)};
  slot = static_cast<unsigned>(row - state.gpu);
  return MigChange::done;
}

MigChange destroy_gpu_instance(MigState& state, unsigned slot) {
  if (slot >= kMaxInstances || state.gpu[slot].used == 0) return MigChange::not_found;
  if (std::ranges::any_of(state.compute,
                          [&](const auto& one) { return one.used != 0 && one.gpu_instance == state.gpu[slot].id; }))
    return MigChange::in_use;
  state.gpu[slot] = {};
  return MigChange::done;
}

std::vector<std::uint8_t> free_compute_places(const MigState& state, const GpuSpec& gpu, unsigned gpu_slot,
                                              int slices) {
  std::vector<std::uint8_t> places;
  const SharedGpuInstance& whole = state.gpu[gpu_slot];
  const unsigned taken = taken_compute(state, whole.id);
  const int room = slices_of(whole, gpu);
  for (int start = 0; start + slices <= room; ++start) {
    if ((taken & bits(static_cast<unsigned>(start), static_cast<unsigned>(slices))) == 0)
      places.push_back(static_cast<std::uint8_t>(start));
  }
  return places;
}

MigChange create_compute_instance(MigState& state, const GpuSpec& gpu, unsigned gpu_slot, const ComputeSlices& wanted,
                                  std::uint32_t number) {
  if (gpu_slot >= kMaxInstances || state.gpu[gpu_slot].used == 0) return MigChange::not_found;
  const auto places = free_compute_places(state, gpu, gpu_slot, wanted.count);
  const unsigned start = wanted.start.value_or(places.empty() ? 0 : places.front());
  SharedComputeInstance* row = unused(state.compute);
  if (row == nullptr || std::ranges::count(places, start) == 0) return MigChange::no_room;
  const std::uint8_t parent = state.gpu[gpu_slot].id;
  std::uint8_t id = 0;
  while (std::ranges::any_of(
      state.compute, [&](const auto& one) { return one.used != 0 && one.gpu_instance == parent && one.id == id; }))
    ++id;
  *row = {1, parent, id, static_cast<std::uint8_t>(wanted.count), static_cast<std::uint8_t>(start), 0, number};
  return MigChange::done;
}

MigChange destroy_compute_instance(MigState& state, unsigned slot) {
  if (slot >= kMaxInstances || state.compute[slot].used == 0) return MigChange::not_found;
  state.compute[slot] = {};
  return MigChange::done;
}

unsigned newest_compute_instance(const MigState& state) {
  return static_cast<unsigned>(std::ranges::max_element(state.compute, {}, &SharedComputeInstance::number) -
                               std::begin(state.compute));
}

}  // namespace gpuwarden::sim
