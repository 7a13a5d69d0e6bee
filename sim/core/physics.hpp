// SPDX-License-Identifier: Apache-2.0
// The physical model of a GPU: load drives power, power drives temperature, temperature and power cap drive clocks.
// Pure and integrated in fixed ticks, so that the result does not depend on who looks when.
#pragma once

#include <cstdint>

#include "sim/core/fleet_spec.hpp"

namespace gpuwarden::sim {

inline constexpr double kTickSeconds = 0.1;
/// How fast a heat sink follows (first-order time constant), and the air that cools it.
inline constexpr double kThermalSeconds = 25;
inline constexpr double kAmbientCelsius = 27;

/// What changes from tick to tick; plain data, lives in shared memory.
struct GpuState {
  double temperature = 0;
  double power = 0;       ///< W
  double energy = 0;      ///< J since the fleet began
  double load = 0;        ///< 0..1 in this tick
  double clock = 1;       ///< share of the maximum clock
  double memory_mib = 0;  ///< held by the scripted workload
  std::uint64_t throttle = 0;
  std::uint64_t ecc_corrected = 0;
  std::uint64_t ecc_uncorrected = 0;
  double power_capped = 0;  ///< seconds held back by the power cap
  double heat_slowed = 0;   ///< seconds held back by software because of heat
  double heat_stopped = 0;  ///< seconds held back by hardware because of heat
};

/// Faults in force, as the model needs them.
struct Ailments {
  bool thermal_runaway = false;
  bool fan_failure = false;
  bool slow_clock = false;
};

/// What holds a GPU back beside heat.
struct Limits {
  double power = 0;  ///< W
  double clock = 1;  ///< share of the maximum clock
};

/// The state before the first tick: idle and settled.
GpuState settled(const GpuSpec& gpu);
/// Load (0..1) of the scripted workload in a tick; noise from (seed, gpu, tick) only.
double scripted_load(const GpuSpec& gpu, std::uint64_t seed, std::uint64_t tick);
/// Memory (MiB) that the scripted workload holds at a tick.
double scripted_memory(const GpuSpec& gpu, std::uint64_t tick);
/// One tick under `load`.
void step(GpuState& state, const GpuSpec& gpu, double load, const Limits& limits, const Ailments& ailments);

}  // namespace gpuwarden::sim
