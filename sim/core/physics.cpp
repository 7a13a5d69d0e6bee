// SPDX-License-Identifier: Apache-2.0
#include "sim/core/physics.hpp"

#include <algorithm>
#include <cmath>

#include "sim/core/identity.hpp"

namespace gpuwarden::sim {
namespace {

// nvmlClocksEventReasons bits.
constexpr std::uint64_t kIdle = 0x1;
constexpr std::uint64_t kClockSetting = 0x2;
constexpr std::uint64_t kPowerCap = 0x4;
constexpr std::uint64_t kHwSlowdown = 0x8;
constexpr std::uint64_t kSwThermal = 0x20;
constexpr std::uint64_t kHwThermal = 0x40;

constexpr double kPowerSeconds = 0.8;  // board power follows load with about this lag
constexpr double kSettledShare =
    0.82;  // at full default power a healthy GPU settles at this share of its slowdown mark

/// K/W such that default power settles where kSettledShare says.
double thermal_resistance(const GpuSpec& gpu) {
  const double settled = kSettledShare * gpu.model.temperature_slowdown;
  return (settled - kAmbientCelsius) / gpu.model.power_default;
}

/// Uniform in [-1, 1] from a counter.
double noise(std::uint64_t seed, std::uint64_t stream, std::uint64_t tick) {
  return static_cast<double>(mix(mix(seed, stream), tick) >> 11U) / 4503599627370496.0 - 1.0;
}

double unthrottled_power(const GpuSpec& gpu, double load) {
  // A little above the default limit at full load, so that the power cap is met as on real training jobs.
  return gpu.model.power_idle + (1.03 * gpu.model.power_default - gpu.model.power_idle) * load;
}

double thermal_clock(const GpuSpec& gpu, double temperature, std::uint64_t& reasons) {
  const double over = temperature - gpu.model.temperature_slowdown;
  if (over <= 0) return 1;
  reasons |= kSwThermal;
  if (over > 2) reasons |= kHwThermal | kHwSlowdown;
  return std::clamp(1.0 - 0.12 * over, 0.2, 1.0);
}

}  // namespace

GpuState settled(const GpuSpec& gpu) {
  GpuState state;
  state.power = gpu.model.power_idle;
  state.temperature = kAmbientCelsius + state.power * thermal_resistance(gpu);
  state.memory_mib = scripted_memory(gpu, 0);
  state.throttle = kIdle;
  return state;
}

double scripted_load(const GpuSpec& gpu, std::uint64_t seed, std::uint64_t tick) {
  const Workload& work = gpu.workload;
  if (work.kind == "idle" || work.kind == "memory_growth") return work.kind == "idle" ? 0 : 0.3;
  const double period = work.kind == "training" ? work.epoch + work.stall : work.epoch;
  const double busy = work.kind == "training" ? work.epoch : work.epoch * work.duty / 100;
  const double phase = std::fmod(static_cast<double>(tick) * kTickSeconds, period);
  if (phase >= busy) return 0.01;
  return std::clamp(work.load / 100 + 0.02 * noise(seed, mix(seed, gpu.uuid), tick), 0.0, 1.0);
}

double scripted_memory(const GpuSpec& gpu, std::uint64_t tick) {
  const Workload& work = gpu.workload;
  if (work.kind == "idle") return 0;
  const double grown = work.kind == "memory_growth" ? work.growth_mib * static_cast<double>(tick) * kTickSeconds : 0;
  return std::min<double>(work.memory_mib + grown, gpu.model.memory_mib - gpu.model.reserved_mib);
}

void step(GpuState& state, const GpuSpec& gpu, double load, const Limits& limits, const Ailments& ailments) {
  state.load = std::clamp(load, 0.0, 1.0);
  state.throttle = load < 0.005 ? kIdle : 0;
  double clock = thermal_clock(gpu, state.temperature, state.throttle);
  if (ailments.slow_clock) {
    clock = std::min(clock, 0.4);
    state.throttle |= kHwSlowdown;
  }
  if (limits.clock < clock) {
    clock = limits.clock;
    if (load >= 0.005) state.throttle |= kClockSetting;
  }
  // Dynamic power goes about with the square of the clock in the range that matters (voltage follows frequency).
  const double dynamic = unthrottled_power(gpu, state.load) - gpu.model.power_idle;
  double wanted = gpu.model.power_idle + dynamic * clock * clock;
  if (wanted > limits.power && dynamic > 0) {
    state.throttle |= kPowerCap;
    clock = std::sqrt(std::max(0.04, (limits.power - gpu.model.power_idle) / dynamic));
    wanted = std::max<double>(limits.power, gpu.model.power_idle);
  }
  state.clock = std::clamp(clock, 0.1, 1.0);
  state.power += (wanted - state.power) * (1 - std::exp(-kTickSeconds / kPowerSeconds));
  double resistance = thermal_resistance(gpu);
  if (ailments.fan_failure) resistance *= 1.7;
  if (ailments.thermal_runaway) resistance *= 3;
  const double target = kAmbientCelsius + resistance * state.power;
  state.temperature += (target - state.temperature) * (kTickSeconds / kThermalSeconds);
  state.temperature = std::min<double>(state.temperature, gpu.model.temperature_shutdown);
  state.energy += state.power * kTickSeconds;
  if ((state.throttle & kPowerCap) != 0) state.power_capped += kTickSeconds;
  if ((state.throttle & kSwThermal) != 0) state.heat_slowed += kTickSeconds;
  if ((state.throttle & kHwThermal) != 0) state.heat_stopped += kTickSeconds;
}

}  // namespace gpuwarden::sim
