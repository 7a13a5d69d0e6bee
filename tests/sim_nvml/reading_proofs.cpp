// SPDX-License-Identifier: Apache-2.0
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using F = Functions;

std::string utilization(const Nvml& nvml, Device device) {
  Utilization value{};
  const Return code = nvml.nvmlDeviceGetUtilizationRates(device, &value);
  return say(code, value.gpu, value.memory);
}

/// Encoder and decoder: the share, and that a period was told.
template <auto function>
std::string sampled(const Nvml& nvml, Device device) {
  unsigned value = 0;
  unsigned period = 0;
  const Return code = (nvml.*function)(device, &value, &period);
  return say(code, value, period > 0 ? "sampled" : "no period");
}

std::string memory(const Nvml& nvml, Device device) {
  Memory value{};
  const Return code = nvml.nvmlDeviceGetMemoryInfo(device, &value);
  return say(code, value.total >> 20U, value.free >> 20U, value.used >> 20U);
}

std::string memory_v2(const Nvml& nvml, Device device) {
  MemoryV2 value{.version = kMemoryV2};
  const Return code = nvml.nvmlDeviceGetMemoryInfo_v2(device, &value);
  return say(code, value.total >> 20U, value.reserved >> 20U, value.free >> 20U, value.used >> 20U);
}

std::string bar1(const Nvml& nvml, Device device) {
  Bar1Memory value{};
  const Return code = nvml.nvmlDeviceGetBAR1MemoryInfo(device, &value);
  return say(code, value.total >> 20U, value.free >> 20U, value.used >> 20U);
}

std::string confidential(const Nvml& nvml, Device device) {
  ConfComputeMemSizeInfo value{};
  const Return code = nvml.nvmlDeviceGetConfComputeMemSizeInfo(device, &value);
  return say(code, value.protected_kib, value.unprotected_kib >> 10U);
}

std::string temperature_v(const Nvml& nvml, Device device) {
  TemperatureV1 value{.version = kTemperatureV1, .sensor = kTemperatureGpu};
  const Return code = nvml.nvmlDeviceGetTemperatureV(device, &value);
  return say(code, value.temperature);
}

std::string remapped(const Nvml& nvml, Device device) {
  std::array<unsigned, 4> v{};
  const Return code = nvml.nvmlDeviceGetRemappedRows(device, v.data(), &v[1], &v[2], &v[3]);
  return say(code, v[0], v[1], v[2], v[3]);
}

/// One field value; an unsupported one fails alone.
template <unsigned id>
std::string field(const Nvml& nvml, Device device) {
  std::array<FieldValue, 2> values{{{.field_id = 9999}, {.field_id = id}}};
  const Return code = nvml.nvmlDeviceGetFieldValues(device, values.size(), values.data());
  if (code != kSuccess) return say(code);
  EXPECT_EQ(values[0].result, kNotSupported) << "an unknown field";
  const auto& value = values[1];
  return say(value.result, value.value_type == kValueTypeUnsigned ? value.value.u32 : value.value.u64);
}

std::vector<Proof> memory_and_heat() {
  return {
      {"nvmlDeviceGetUtilizationRates", utilization, "62 33", set("utilization", 63), "63 33"},
      {"nvmlDeviceGetUtilizationRates", utilization, "62 33", set("memory_utilization", 34), "62 34"},
      {"nvmlDeviceGetEncoderUtilization", sampled<&F::nvmlDeviceGetEncoderUtilization>, "11 sampled",
       set("encoder_utilization", 71), "71 sampled"},
      {"nvmlDeviceGetDecoderUtilization", sampled<&F::nvmlDeviceGetDecoderUtilization>, "12 sampled",
       set("decoder_utilization", 72), "72 sampled"},
      // The first version counts what is reserved as used, the second tells it apart.
      {"nvmlDeviceGetMemoryInfo", memory, "81920 80320 1600", set("memory_used", 2000), "81920 79320 2600"},
      {"nvmlDeviceGetMemoryInfo_v2", memory_v2, "81920 600 80320 1000", set("memory_used", 2000),
       "81920 600 79320 2000"},
      {"nvmlDeviceGetMemoryInfo_v2", memory_v2, "81920 600 80320 1000", set("memory_total", 40960),
       "40960 600 39360 1000"},
      {"nvmlDeviceGetBAR1MemoryInfo", bar1, "2048 2043 5", set("bar1_used", 8), "2048 2040 8"},
      {"nvmlDeviceGetConfComputeMemSizeInfo", confidential, "0 81920", set("memory_total", 40960), "0 40960"},
      {"nvmlDeviceGetTemperature", number<&F::nvmlDeviceGetTemperature, kTemperatureGpu>, "41", set("temperature", 77),
       "77"},
      {"nvmlDeviceGetTemperatureV", temperature_v, "41", set("temperature", 77), "77"},
      {"nvmlDeviceGetTemperatureThreshold", number<&F::nvmlDeviceGetTemperatureThreshold, kThresholdShutdown>, "95",
       set("temperature_shutdown", 99), "99"},
      {"nvmlDeviceGetTemperatureThreshold", number<&F::nvmlDeviceGetTemperatureThreshold, kThresholdSlowdown>, "92",
       set("temperature_slowdown", 88), "88"},
      {"nvmlDeviceGetTemperatureThreshold", number<&F::nvmlDeviceGetTemperatureThreshold, kThresholdMemoryMax>, "95",
       set("temperature_memory_max", 105), "105"},
      {"nvmlDeviceGetTemperatureThreshold", number<&F::nvmlDeviceGetTemperatureThreshold, kThresholdGpuMax>, "90",
       set("temperature_max", 85), "85"},
      {"nvmlDeviceGetFanSpeed", number<&F::nvmlDeviceGetFanSpeed>, "37", set("fan_speed", 80), "80"},
      {"nvmlDeviceGetFanSpeed_v2", number<&F::nvmlDeviceGetFanSpeed_v2, 0U>, "37", set("fan_speed", 80), "80"},
      {"nvmlDeviceGetNumFans", number<&F::nvmlDeviceGetNumFans>, "1", nullptr, "0"},
  };
}

std::vector<Proof> power_and_clocks() {
  return {
      // NVML speaks milliwatts and millijoules.
      {"nvmlDeviceGetPowerUsage", number<&F::nvmlDeviceGetPowerUsage>, "251500", set("power", 99.25), "99250"},
      {"nvmlDeviceGetPowerState", number<&F::nvmlDeviceGetPowerState>, "2", set("performance_state", 8), "8"},
      {"nvmlDeviceGetPerformanceState", number<&F::nvmlDeviceGetPerformanceState>, "2", set("performance_state", 8),
       "8"},
      {"nvmlDeviceGetPowerManagementLimit", number<&F::nvmlDeviceGetPowerManagementLimit>, "400000",
       set("power_limit", 300), "300000"},
      {"nvmlDeviceGetEnforcedPowerLimit", number<&F::nvmlDeviceGetEnforcedPowerLimit>, "400000",
       set("power_limit", 300), "300000"},
      {"nvmlDeviceGetPowerManagementDefaultLimit", number<&F::nvmlDeviceGetPowerManagementDefaultLimit>, "400000",
       set("power_limit_default", 350), "350000"},
      {"nvmlDeviceGetPowerManagementLimitConstraints", two_numbers<&F::nvmlDeviceGetPowerManagementLimitConstraints>,
       "100000 400000", set("power_limit_min", 150), "150000 400000"},
      {"nvmlDeviceGetTotalEnergyConsumption", number<&F::nvmlDeviceGetTotalEnergyConsumption>, "1000000",
       set("energy", 1001.5), "1001500"},
      {"nvmlDeviceGetClockInfo", number<&F::nvmlDeviceGetClockInfo, kClockGraphics>, "1111", set("clock_graphics", 900),
       "900"},
      {"nvmlDeviceGetClockInfo", number<&F::nvmlDeviceGetClockInfo, kClockSm>, "1112", set("clock_sm", 901), "901"},
      {"nvmlDeviceGetClockInfo", number<&F::nvmlDeviceGetClockInfo, kClockMemory>, "1593", set("clock_memory", 902),
       "902"},
      {"nvmlDeviceGetClockInfo", number<&F::nvmlDeviceGetClockInfo, kClockVideo>, "1113", set("clock_video", 903),
       "903"},
      {"nvmlDeviceGetMaxClockInfo", number<&F::nvmlDeviceGetMaxClockInfo, kClockMemory>, "1593",
       set("clock_memory_max", 1600), "1600"},
      {"nvmlDeviceGetMaxClockInfo", number<&F::nvmlDeviceGetMaxClockInfo, kClockSm>, "1410", set("clock_sm_max", 1500),
       "1500"},
      {"nvmlDeviceGetApplicationsClock", number<&F::nvmlDeviceGetApplicationsClock, kClockGraphics>, "1410",
       set("clock_graphics_application", 1500), "1500"},
      {"nvmlDeviceGetClock", number<&F::nvmlDeviceGetClock, kClockSm, kClockIdCurrent>, "1112", set("clock_sm", 901),
       "901"},
      {"nvmlDeviceGetCurrentClocksThrottleReasons", number<&F::nvmlDeviceGetCurrentClocksThrottleReasons>, "4",
       set("throttle_reasons", 64), "64"},
      {"nvmlDeviceGetCurrentClocksEventReasons", number<&F::nvmlDeviceGetCurrentClocksEventReasons>, "4",
       set("throttle_reasons", 64), "64"},
      {"nvmlDeviceGetSupportedClocksThrottleReasons", number<&F::nvmlDeviceGetSupportedClocksThrottleReasons>,
       std::to_string(0x1FF), fault("lost"), "error 15"},
  };
}

std::vector<Proof> pcie_and_ecc() {
  return {
      {"nvmlDeviceGetCurrPcieLinkGeneration", number<&F::nvmlDeviceGetCurrPcieLinkGeneration>, "3",
       set("pcie_generation", 1), "1"},
      {"nvmlDeviceGetCurrPcieLinkWidth", number<&F::nvmlDeviceGetCurrPcieLinkWidth>, "8", set("pcie_width", 4), "4"},
      {"nvmlDeviceGetMaxPcieLinkGeneration", number<&F::nvmlDeviceGetMaxPcieLinkGeneration>, "4",
       set("pcie_generation_max", 5), "5"},
      {"nvmlDeviceGetMaxPcieLinkWidth", number<&F::nvmlDeviceGetMaxPcieLinkWidth>, "16", set("pcie_width_max", 8), "8"},
      {"nvmlDeviceGetPcieThroughput", number<&F::nvmlDeviceGetPcieThroughput, kPcieTx>, "1234", set("pcie_tx", 4321),
       "4321"},
      {"nvmlDeviceGetPcieThroughput", number<&F::nvmlDeviceGetPcieThroughput, kPcieRx>, "5678", set("pcie_rx", 8765),
       "8765"},
      {"nvmlDeviceGetPcieReplayCounter", number<&F::nvmlDeviceGetPcieReplayCounter>, "7", set("pcie_replays", 9), "9"},
      {"nvmlDeviceGetEccMode", two_numbers<&F::nvmlDeviceGetEccMode>, "1 1", set("ecc_enabled", 0), "0 0"},
      {"nvmlDeviceGetTotalEccErrors", number<&F::nvmlDeviceGetTotalEccErrors, kEccCorrected, kEccVolatile>, "21",
       set("ecc_corrected_volatile", 121), "121"},
      {"nvmlDeviceGetTotalEccErrors", number<&F::nvmlDeviceGetTotalEccErrors, kEccUncorrected, kEccVolatile>, "22",
       set("ecc_uncorrected_volatile", 122), "122"},
      {"nvmlDeviceGetTotalEccErrors", number<&F::nvmlDeviceGetTotalEccErrors, kEccCorrected, kEccAggregate>, "23",
       set("ecc_corrected_aggregate", 123), "123"},
      {"nvmlDeviceGetTotalEccErrors", number<&F::nvmlDeviceGetTotalEccErrors, kEccUncorrected, kEccAggregate>, "24",
       set("ecc_uncorrected_aggregate", 124), "124"},
      {"nvmlDeviceGetMemoryErrorCounter",
       number<&F::nvmlDeviceGetMemoryErrorCounter, kEccUncorrected, kEccVolatile, kMemoryLocationDram>, "22",
       set("ecc_uncorrected_volatile", 122), "122"},
      {"nvmlDeviceGetRetiredPagesPendingStatus", number<&F::nvmlDeviceGetRetiredPagesPendingStatus>, "0",
       set("retired_pending", 1), "1"},
      {"nvmlDeviceGetRemappedRows", remapped, "3 2 1 0", set("remapped_failure", 1), "3 2 1 1"},
      {"nvmlDeviceGetFieldValues", field<kFieldMemoryTemperature>, "49", set("memory_temperature", 90), "90"},
      {"nvmlDeviceGetFieldValues", field<kFieldTotalEnergy>, "1000000", set("energy", 2000), "2000000"},
      {"nvmlDeviceGetFieldValues", field<kFieldPowerInstant>, "251500", set("power", 100), "100000"},
      {"nvmlDeviceGetFieldValues", field<kFieldNvLinkLinkCount>, "12", set("nvlink_count", 4), "4"},
      {"nvmlDeviceGetFieldValues", field<kFieldPcieReplayCounter>, "7", set("pcie_replays", 9), "9"},
      {"nvmlDeviceGetFieldValues", field<kFieldRemappedCorrected>, "3", set("remapped_corrected", 6), "6"},
      {"nvmlDeviceGetFieldValues", field<kFieldRemappedUncorrected>, "2", set("remapped_uncorrected", 6), "6"},
      {"nvmlDeviceGetFieldValues", field<kFieldRemappedPending>, "1", set("remapped_pending", 0), "0"},
      {"nvmlDeviceGetFieldValues", field<kFieldRemappedFailure>, "0", set("remapped_failure", 1), "1"},
  };
}

}  // namespace

std::vector<Proof> reading_proofs() {
  std::vector<Proof> all = memory_and_heat();
  for (const auto& part : {power_and_clocks(), pcie_and_ecc()}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace gpuwarden::nvml
