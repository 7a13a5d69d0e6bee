// SPDX-License-Identifier: Apache-2.0
// What callers change on a GPU, and what a reset of the GPU undoes: pure functions over the shared state.
#pragma once

#include <optional>

#include "sim/core/fleet.hpp"

namespace gpuwarden::sim {

/// Pins a reading (an empty value: "not supported"); false when there are too many.
bool pin(Body& body, std::uint32_t gpu, Field field, std::optional<double> value);
void unpin(Body& body, std::uint32_t gpu, Field field);
/// A reading that is set rather than measured: as it was last set, else as the fleet's file pins it, else `otherwise`.
double setting(const Body& body, const FleetSpec& spec, std::uint32_t gpu, Field field, double otherwise);
/// Whether the GPU is in MIG mode.
bool is_mig(const Body& body, const FleetSpec& spec, std::uint32_t gpu);
/// What holds back a GPU's power and clocks.
Limits limits_of(const Body& body, const FleetSpec& spec, std::uint32_t gpu);
/// The graphics and memory clocks as locks leave them; readings in MHz.
void apply_locks(Readings& readings, const GpuSettings& settings);

/// Sets the volatile (0) or aggregate (1) ECC counters, or the NVLink error counters, back to 0.
void clear_ecc(Body& body, const FleetSpec& spec, std::uint32_t gpu, int counter);
void clear_nvlink_errors(Body& body, const FleetSpec& spec, std::uint32_t gpu);

/// What `nvidia-smi --gpu-reset` does: pending modes come into force, MIG instances and volatile counters are gone,
/// power limit, clocks and fans are the product's again, what a reset mends is mended.
void reset(Body& body, const FleetSpec& spec, std::uint32_t gpu);

}  // namespace gpuwarden::sim
