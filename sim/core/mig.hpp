// SPDX-License-Identifier: Apache-2.0
// How a GPU in MIG mode is cut up: pure functions over the shared state. Source of the rules: NVIDIA's MIG user guide.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/shared_state.hpp"

namespace gpuwarden::sim {

/// The instances that the fleet's file describes.
MigState described_instances(const GpuSpec& gpu);
/// The MIG devices, one for each compute instance.
std::vector<MigInstance> mig_devices(const MigState& state, const GpuSpec& gpu);

/// Profiles that NVML can name: those with a number of the model's table.
std::optional<std::uint8_t> mig_profile_of(const GpuSpec& gpu, unsigned id);
/// Compute slices of a GPU instance.
int slices_of(const SharedGpuInstance& instance, const GpuSpec& gpu);

/// Memory slices where an instance of the profile may begin as things are.
std::vector<std::uint8_t> free_places(const MigState& state, const MigProfile& profile);
/// How many more instances of the profile fit.
unsigned remaining(MigState state, const GpuSpec& gpu, std::uint8_t profile);

enum class MigChange { done, no_room, in_use, not_found };
/// Makes a GPU instance, at `start` where that is given; its slot.
MigChange create_gpu_instance(MigState& state, const GpuSpec& gpu, std::uint8_t profile, std::optional<unsigned> start,
                              unsigned& slot);
/// Ends a GPU instance; in_use while it has compute instances.
MigChange destroy_gpu_instance(MigState& state, unsigned slot);

/// Compute slices of a GPU instance where a compute instance of that many slices may begin.
std::vector<std::uint8_t> free_compute_places(const MigState& state, const GpuSpec& gpu, unsigned gpu_slot, int slices);
/// Compute slices of a GPU instance that somebody asks for; where they begin is his wish or ours.
struct ComputeSlices {
  int count = 0;
  std::optional<unsigned> start;
};
/// Makes a compute instance; `number` names it for ever.
MigChange create_compute_instance(MigState& state, const GpuSpec& gpu, unsigned gpu_slot, const ComputeSlices& wanted,
                                  std::uint32_t number);
MigChange destroy_compute_instance(MigState& state, unsigned slot);

/// The slot of the newest compute instance.
unsigned newest_compute_instance(const MigState& state);
/// SMs of a compute instance with some of its GPU instance's slices.
int multiprocessors_of(const MigProfile& profile, int slices, int one_slice);
/// "3g.20gb", or "1c.3g.20gb" for a part of it.
std::string device_profile(std::string_view gpu_profile, int slices, int of_slices);

}  // namespace gpuwarden::sim
