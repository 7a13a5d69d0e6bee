// SPDX-License-Identifier: Apache-2.0
// Readings as a sampler makes them, of GPUs that work: every metric that hardware changes changes.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <string_view>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::testing {

inline constexpr std::chrono::system_clock::time_point kReadingsBegin{std::chrono::seconds(1'700'000'000)};

inline Uuid reading_uuid(std::uint32_t gpu) { return Uuid(fmt::format("GPU-{:08x}-aaaa-bbbb-cccc-000000000000", gpu)); }

/// A reading `after` the begin with the given GPUs, whose metrics are not known yet.
inline telemetry::Reading bare_reading(std::chrono::milliseconds after, std::uint32_t gpus) {
  telemetry::Reading reading;
  reading.snapshot.taken_at = kReadingsBegin + after;
  reading.when = Clock::SteadyTime(std::chrono::hours(1) + after);
  for (std::uint32_t i = 0; i < gpus; ++i) {
    facts::GpuRecord record;
    record.gpu.index = GpuIndex{i};
    record.gpu.uuid = reading_uuid(i);
    record.gpu.name = "NVIDIA H100 80GB HBM3";
    record.processes.emplace();
    reading.snapshot.gpus.push_back(record);
  }
  return reading;
}

/// One metric of one GPU, in its shown unit.
inline telemetry::Reading reading_with(std::chrono::milliseconds after, std::string_view metric, double value) {
  telemetry::Reading reading = bare_reading(after, 1);
  facts::set_value(*facts::find_metric(metric), reading.snapshot.gpus[0].sample, value);
  return reading;
}

/// Makes one reading after another with every metric of the table set.
class BusyFleet {
 public:
  explicit BusyFleet(std::uint32_t gpus) : gpus_(gpus), energy_(gpus, 1e6) {}

  telemetry::Reading next(std::chrono::milliseconds after) {
    telemetry::Reading reading = bare_reading(after, gpus_);
    for (std::uint32_t i = 0; i < gpus_; ++i) fill(reading.snapshot.gpus[i].sample, i, after);
    return reading;
  }

 private:
  double noise(double most) { return most * static_cast<double>(random_() % 10'001) / 10'000; }

  void fill(facts::GpuSample& sample, std::uint32_t gpu, std::chrono::milliseconds after) {
    const double seconds = static_cast<double>(after.count()) / 1000;
    const double load = std::fmod(seconds / 300 + gpu, 4) < 3 ? 0.9 : 0.05;
    // What stands still most of the time.
    for (const facts::Metric& metric : facts::metrics()) facts::set_value(metric, sample, metric.range.low);
    const auto set = [&](std::string_view id, double value) {
      facts::set_value(*facts::find_metric(id), sample, value);
    };
    const double power = 100 + load * 550 + noise(20);
    const double used = 2e9 + std::floor(load * 35'000) * 2097152 + (random_() % 20 == 0 ? 2097152.0 : 0);
    energy_[gpu] += power;
    set("memory_total", 85'520'809'984.0);
    set("memory_used", used);
    set("memory_free", 85'520'809'984.0 - used);
    set("utilization", std::floor(load * 95 + noise(5)));
    set("memory_utilization", std::floor(load * 60 + noise(10)));
    set("temperature", std::floor(35 + load * 30 + noise(2)));
    set("memory_temperature", std::floor(40 + load * 35 + noise(2)));
    set("temperature_margin", std::floor(50 - load * 30 - noise(2)));
    for (const char* const id : {"power", "power_average", "power_instant"}) set(id, power + noise(5));
    set("energy", energy_[gpu]);
    for (const char* const id : {"clock_graphics", "clock_sm", "clock_video"})
      set(id, load > 0.5 ? 1980 - 15 * std::floor(noise(4)) : 345);
    set("slowdown_total", std::floor(seconds / 3));
    set("slowdown_power", std::floor(seconds / 3) + noise(0.001));
    set("power_limit", 700);
    for (const char* const id : {"pcie_sent", "pcie_received"}) set(id, std::floor(load * noise(2e10) / 1000) * 1000);
    for (const char* const id : {"nvlink_sent", "nvlink_received"}) set(id, std::floor(load * noise(2e11)));
    for (const char* const id :
         {"sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active", "fp16_active"})
      set(id, load * (60 + noise(30)));
  }

  std::uint32_t gpus_;
  std::vector<double> energy_;
  std::mt19937 random_{7};
};

}  // namespace gpuwarden::testing
