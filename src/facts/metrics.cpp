// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpuwarden::facts {
namespace {

using S = GpuSample;
constexpr auto kGauge = MetricKind::gauge;
constexpr auto kCounter = MetricKind::counter;

constexpr std::array<Metric, 22> kMetrics{{
    {"utilization", "utilization.gpu_percent", "gpuwarden_gpu_utilization_percent", "%", kGauge,
     "Share of the sample period in which a kernel ran.", "nvmlDeviceGetUtilizationRates", &S::utilization_gpu},
    {"memory_utilization", "utilization.memory_percent", "gpuwarden_gpu_memory_utilization_percent", "%", kGauge,
     "Share of the sample period in which device memory was read or written.", "nvmlDeviceGetUtilizationRates",
     &S::utilization_memory},
    {"memory_total", "memory.total_bytes", "gpuwarden_gpu_memory_total_bytes", "B", kGauge, "Device memory.",
     "nvmlDeviceGetMemoryInfo_v2", &S::memory_total},
    {"memory_used", "memory.used_bytes", "gpuwarden_gpu_memory_used_bytes", "B", kGauge,
     "Device memory in use, without the driver's reserved part where it is told apart.", "nvmlDeviceGetMemoryInfo_v2",
     &S::memory_used},
    {"memory_free", "memory.free_bytes", "gpuwarden_gpu_memory_free_bytes", "B", kGauge, "Device memory not in use.",
     "nvmlDeviceGetMemoryInfo_v2", &S::memory_free},
    {"memory_reserved", "memory.reserved_bytes", "gpuwarden_gpu_memory_reserved_bytes", "B", kGauge,
     "Device memory kept by driver and firmware.", "nvmlDeviceGetMemoryInfo_v2", &S::memory_reserved},
    {"temperature", "temperature_celsius", "gpuwarden_gpu_temperature_celsius", "°C", kGauge, "GPU temperature.",
     "nvmlDeviceGetTemperature", &S::temperature},
    {"power", "power_watts", "gpuwarden_gpu_power_watts", "W", kGauge, "Board power draw.", "nvmlDeviceGetPowerUsage",
     &S::power},
    {"power_limit", "power_limit_watts", "gpuwarden_gpu_power_limit_watts", "W", kGauge, "Power limit in force.",
     "nvmlDeviceGetEnforcedPowerLimit", &S::power_limit},
    {"clock_graphics", "clocks.graphics_megahertz", "gpuwarden_gpu_clock_graphics_megahertz", "MHz", kGauge,
     "Graphics clock.", "nvmlDeviceGetClockInfo", &S::clock_graphics},
    {"clock_sm", "clocks.sm_megahertz", "gpuwarden_gpu_clock_sm_megahertz", "MHz", kGauge,
     "Streaming multiprocessor clock.", "nvmlDeviceGetClockInfo", &S::clock_sm},
    {"clock_memory", "clocks.memory_megahertz", "gpuwarden_gpu_clock_memory_megahertz", "MHz", kGauge, "Memory clock.",
     "nvmlDeviceGetClockInfo", &S::clock_memory},
    {"clock_video", "clocks.video_megahertz", "gpuwarden_gpu_clock_video_megahertz", "MHz", kGauge,
     "Video encoder and decoder clock.", "nvmlDeviceGetClockInfo", &S::clock_video},
    {"performance_state", "performance_state", "gpuwarden_gpu_performance_state", "", kGauge,
     "Performance state: 0 is the fastest, 15 the slowest.", "nvmlDeviceGetPerformanceState", &S::performance_state},
    {"fan_speed", "fan_speed_percent", "gpuwarden_gpu_fan_speed_percent", "%", kGauge,
     "Intended fan speed as a share of its maximum.", "nvmlDeviceGetFanSpeed", &S::fan_speed},
    {"pcie_generation", "pcie.generation", "gpuwarden_gpu_pcie_generation", "", kGauge,
     "PCIe generation of the link right now.", "nvmlDeviceGetCurrPcieLinkGeneration", &S::pcie_generation},
    {"pcie_width", "pcie.width", "gpuwarden_gpu_pcie_width_lanes", "", kGauge, "PCIe lanes in use.",
     "nvmlDeviceGetCurrPcieLinkWidth", &S::pcie_width},
    {"ecc_corrected_volatile", "ecc.volatile.corrected", "gpuwarden_gpu_ecc_corrected_volatile_total", "", kCounter,
     "Corrected memory errors since the driver was loaded.", "nvmlDeviceGetTotalEccErrors", &S::ecc_corrected_volatile},
    {"ecc_uncorrected_volatile", "ecc.volatile.uncorrected", "gpuwarden_gpu_ecc_uncorrected_volatile_total", "",
     kCounter, "Uncorrected memory errors since the driver was loaded.", "nvmlDeviceGetTotalEccErrors",
     &S::ecc_uncorrected_volatile},
    {"ecc_corrected_aggregate", "ecc.aggregate.corrected", "gpuwarden_gpu_ecc_corrected_aggregate_total", "", kCounter,
     "Corrected memory errors in the GPU's life.", "nvmlDeviceGetTotalEccErrors", &S::ecc_corrected_aggregate},
    {"ecc_uncorrected_aggregate", "ecc.aggregate.uncorrected", "gpuwarden_gpu_ecc_uncorrected_aggregate_total", "",
     kCounter, "Uncorrected memory errors in the GPU's life.", "nvmlDeviceGetTotalEccErrors",
     &S::ecc_uncorrected_aggregate},
    {"energy", "energy_joules", "gpuwarden_gpu_energy_joules_total", "J", kCounter,
     "Energy used since the driver was loaded.", "nvmlDeviceGetTotalEnergyConsumption", &S::energy},
}};

/// How many of the field's steps make one of the shown unit: NVML speaks milliwatts and millijoules, people do not.
template <class Unit>
constexpr double kStepsPerShownUnit = 1;
template <>
constexpr double kStepsPerShownUnit<Milliwatts> = 1000;
template <>
constexpr double kStepsPerShownUnit<Millijoules> = 1000;

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

const Metric* find_metric(std::string_view id) {
  const auto* const found = std::ranges::find(kMetrics, id, &Metric::id);
  return found == kMetrics.end() ? nullptr : found;
}

std::optional<double> value_of(const Metric& metric, const GpuSample& sample) {
  return std::visit(
      [&]<class Unit>(std::optional<Unit> GpuSample::* field) -> std::optional<double> {
        if (!(sample.*field)) return std::nullopt;
        return static_cast<double>((sample.*field)->value) / kStepsPerShownUnit<Unit>;
      },
      metric.field);
}

void set_value(const Metric& metric, GpuSample& sample, std::optional<double> value) {
  std::visit(
      [&]<class Unit>(std::optional<Unit> GpuSample::* field) {
        sample.*field =
            value
                ? std::optional(Unit(static_cast<typename Unit::rep>(std::llround(*value * kStepsPerShownUnit<Unit>))))
                : std::nullopt;
      },
      metric.field);
}

}  // namespace gpuwarden::facts
