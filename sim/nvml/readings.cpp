// SPDX-License-Identifier: Apache-2.0
// Utilization, memory, temperature, power, clocks, PCIe, ECC: what changes.
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;
using sim::Field;

constexpr double kMiB = 1 << 20;
constexpr unsigned kSamplePeriodUs = 167000;  // what real boards report for encoder and decoder

/// Memory of a GPU or a MIG instance, in bytes.
struct MemoryParts {
  unsigned long long total = 0;
  unsigned long long reserved = 0;
  unsigned long long used = 0;
};

Return memory_parts(Device device, MemoryParts& parts) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (target.instance != nullptr) {
    double used = target.instance->memory_used_mib;
    for (const auto& process : target.gpu->processes) {
      if (process.gpu_instance == target.instance->gpu_instance)
        used += static_cast<double>(process.memory_bytes.value_or(0)) / kMiB;
    }
    parts = {static_cast<unsigned long long>(target.instance->memory_mib * kMiB), 0,
             static_cast<unsigned long long>(used * kMiB)};
    return kSuccess;
  }
  const auto mib = [&](Field field) { return sim::at(target.gpu->readings, field); };
  if (!mib(Field::memory_total) || !mib(Field::memory_used)) return kNotSupported;
  const auto bytes = [&](Field field) { return static_cast<unsigned long long>(mib(field).value_or(0) * kMiB); };
  parts = {bytes(Field::memory_total), bytes(Field::memory_reserved), bytes(Field::memory_used)};
  if (parts.used + parts.reserved > parts.total) parts.reserved = parts.total - parts.used;
  return kSuccess;
}

/// A MIG instance has its share of the window, as of the memory.
Return bar1_of_instance(const Target& target, Bar1Memory& out) {
  const auto total = sim::at(target.gpu->readings, Field::bar1_total);
  if (!total) return kNotSupported;
  const double share = static_cast<double>(target.instance->memory_mib) / target.gpu->spec->model.memory_mib;
  out.total = static_cast<unsigned long long>(std::floor(*total * share)) << 20U;
  out.free = out.total;
  out.used = 0;
  return kSuccess;
}

std::optional<Field> clock_field(int type, bool maximum) {
  static constexpr Field kNow[] = {Field::clock_graphics, Field::clock_sm, Field::clock_memory, Field::clock_video};
  static constexpr Field kMax[] = {Field::clock_graphics_max, Field::clock_sm_max, Field::clock_memory_max,
                                   Field::clock_video_max};
  if (type < 0 || type > 3) return std::nullopt;
  return maximum ? kMax[type] : kNow[type];
}

std::optional<Field> ecc_field(int error, int counter) {
  if (error < 0 || error > 1 || counter < 0 || counter > 1) return std::nullopt;
  if (counter == kEccVolatile)
    return error == kEccCorrected ? Field::ecc_corrected_volatile : Field::ecc_uncorrected_volatile;
  return error == kEccCorrected ? Field::ecc_corrected_aggregate : Field::ecc_uncorrected_aggregate;
}

Return sampled(Device device, Field field, unsigned* value, unsigned* period) {
  if (period == nullptr) return kInvalidArgument;
  const Return code = number(device, field, value);
  if (code == kSuccess) *period = kSamplePeriodUs;
  return code;
}

Return total_ecc(Device device, int error, int counter, unsigned long long* count) {
  const auto field = ecc_field(error, counter);
  return field ? number(device, *field, count) : kInvalidArgument;
}

/// One field value; the ids are NVML's NVML_FI_DEV_*.
Return read_field(Device device, FieldValue& value) {
  const SlowdownFields slowdowns = slowdown_fields(parse_integer(split(fleet()->spec().driver, '.')[0]).value_or(0));
  if (value.field_id != 0 && (value.field_id == slowdowns.hw_thermal || value.field_id == slowdowns.hw_power_brake)) {
    value.value_type = kValueTypeUnsignedLongLong;
    const bool heat = value.field_id == slowdowns.hw_thermal;
    return number(device, heat ? Field::slowdown_hw_thermal : Field::slowdown_hw_power_brake, &value.value.u64, 1000);
  }
  unsigned small = 0;
  Return code = kNotSupported;
  value.value_type = kValueTypeUnsigned;
  switch (value.field_id) {
    case kFieldMemoryTemperature:
      code = number(device, Field::memory_temperature, &small);
      break;
    case kFieldTotalEnergy:
      value.value_type = kValueTypeUnsignedLongLong;
      return number(device, Field::energy, &value.value.u64, 1000);
    case kFieldNvLinkSpeedCommon:
      code = number(device, Field::nvlink_speed, &small);
      break;
    case kFieldNvLinkThroughputDataTx:
      value.value_type = kValueTypeUnsignedLongLong;
      return number(device, Field::nvlink_sent, &value.value.u64);
    case kFieldNvLinkThroughputDataRx:
      value.value_type = kValueTypeUnsignedLongLong;
      return number(device, Field::nvlink_received, &value.value.u64);
    case kFieldNvLinkLinkCount:
      code = number(device, Field::nvlink_count, &small);
      break;
    case kFieldPcieReplayCounter:
      code = number(device, Field::pcie_replays, &small);
      break;
    case kFieldRemappedCorrected:
      code = number(device, Field::remapped_corrected, &small);
      break;
    case kFieldRemappedUncorrected:
      code = number(device, Field::remapped_uncorrected, &small);
      break;
    case kFieldRemappedPending:
      code = number(device, Field::remapped_pending, &small);
      break;
    case kFieldRemappedFailure:
      code = number(device, Field::remapped_failure, &small);
      break;
    case kFieldPowerAverage:
    case kFieldPowerInstant:
      code = number(device, Field::power, &small, 1000);
      break;
    default:
      break;
  }
  value.value.u64 = 0;
  value.value.u32 = small;
  return code;
}

}  // namespace

extern "C" {

Return nvmlDeviceGetUtilizationRates(Device device, Utilization* out) {
  if (out == nullptr) return kInvalidArgument;
  if (const Return code = number(device, Field::utilization, &out->gpu); code != kSuccess) return code;
  return number(device, Field::memory_utilization, &out->memory);
}
Return nvmlDeviceGetEncoderUtilization(Device d, unsigned* value, unsigned* period) {
  return sampled(d, Field::encoder_utilization, value, period);
}
Return nvmlDeviceGetDecoderUtilization(Device d, unsigned* value, unsigned* period) {
  return sampled(d, Field::decoder_utilization, value, period);
}
Return nvmlDeviceGetJpgUtilization(Device d, unsigned* value, unsigned* period) {
  return sampled(d, Field::jpeg_utilization, value, period);
}
Return nvmlDeviceGetOfaUtilization(Device d, unsigned* value, unsigned* period) {
  return sampled(d, Field::ofa_utilization, value, period);
}

// The first version counts the reserved part as used.
Return nvmlDeviceGetMemoryInfo(Device device, Memory* out) {
  if (out == nullptr) return kInvalidArgument;
  MemoryParts parts;
  if (const Return code = memory_parts(device, parts); code != kSuccess) return code;
  *out = {parts.total, parts.total - parts.used - parts.reserved, parts.used + parts.reserved};
  return kSuccess;
}

Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* out) {
  if (out == nullptr) return kInvalidArgument;
  if (out->version != kMemoryV2) return kArgumentVersionMismatch;
  MemoryParts parts;
  if (const Return code = memory_parts(device, parts); code != kSuccess) return code;
  *out = {kMemoryV2, parts.total, parts.reserved, parts.total - parts.used - parts.reserved, parts.used};
  return kSuccess;
}

Return nvmlDeviceGetBAR1MemoryInfo(Device device, Bar1Memory* out) {
  if (out == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (target.instance != nullptr) return bar1_of_instance(target, *out);
  if (const Return code = number(device, Field::bar1_total, &out->total, kMiB); code != kSuccess) return code;
  if (const Return code = number(device, Field::bar1_used, &out->used, kMiB); code != kSuccess) return code;
  out->free = out->total > out->used ? out->total - out->used : 0;
  return kSuccess;
}

// Without confidential computing all memory is unprotected.
Return nvmlDeviceGetConfComputeMemSizeInfo(Device device, ConfComputeMemSizeInfo* out) {
  if (out == nullptr) return kInvalidArgument;
  out->protected_kib = 0;
  return number(device, Field::memory_total, &out->unprotected_kib, 1024);
}

Return nvmlDeviceGetTemperature(Device device, int sensor, unsigned* out) {
  return sensor == kTemperatureGpu ? number(device, Field::temperature, out) : kInvalidArgument;
}

Return nvmlDeviceGetTemperatureV(Device device, TemperatureV1* out) {
  if (out == nullptr) return kInvalidArgument;
  if (out->version != kTemperatureV1) return kArgumentVersionMismatch;
  if (out->sensor != kTemperatureGpu) return kInvalidArgument;
  return number(device, Field::temperature, &out->temperature);
}

Return nvmlDeviceGetTemperatureThreshold(Device device, int threshold, unsigned* out) {
  switch (threshold) {
    case kThresholdShutdown:
      return number(device, Field::temperature_shutdown, out);
    case kThresholdSlowdown:
      return number(device, Field::temperature_slowdown, out);
    case kThresholdMemoryMax:
      return number(device, Field::temperature_memory_max, out);
    case kThresholdAcousticCurrent:
      return number(device, Field::temperature_acoustic, out);
    case kThresholdGpuMax:
      return number(device, Field::temperature_max, out);
    default:
      return threshold < 0 || threshold > 7 ? kInvalidArgument : kNotSupported;
  }
}

Return nvmlDeviceGetFanSpeed(Device device, unsigned* out) { return number(device, Field::fan_speed, out); }
Return nvmlDeviceGetFanSpeed_v2(Device device, unsigned fan, unsigned* out) {
  return fan == 0 ? number(device, Field::fan_speed, out) : kInvalidArgument;
}
Return nvmlDeviceGetNumFans(Device device, unsigned* out) {
  unsigned speed = 0;
  if (out == nullptr) return kInvalidArgument;
  const Return code = number(device, Field::fan_speed, &speed);
  if (code == kSuccess || code == kNotSupported) *out = code == kSuccess ? 1 : 0;
  return code == kNotSupported ? kSuccess : code;
}

Return nvmlDeviceGetPowerUsage(Device device, unsigned* out) { return number(device, Field::power, out, 1000); }
Return nvmlDeviceGetPowerState(Device device, int* out) { return number(device, Field::performance_state, out); }
Return nvmlDeviceGetPerformanceState(Device device, int* out) { return number(device, Field::performance_state, out); }
Return nvmlDeviceGetPowerManagementLimit(Device device, unsigned* out) {
  return number(device, Field::power_limit, out, 1000);
}
Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* out) {
  return number(device, Field::power_limit, out, 1000);
}
Return nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned* out) {
  return number(device, Field::power_limit_default, out, 1000);
}
Return nvmlDeviceGetPowerManagementLimitConstraints(Device device, unsigned* low, unsigned* high) {
  if (const Return code = number(device, Field::power_limit_min, low, 1000); code != kSuccess) return code;
  return number(device, Field::power_limit_max, high, 1000);
}
Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* out) {
  return number(device, Field::energy, out, 1000);
}

Return nvmlDeviceGetClockInfo(Device device, int type, unsigned* out) {
  const auto field = clock_field(type, false);
  return field ? number(device, *field, out) : kInvalidArgument;
}
Return nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned* out) {
  const auto field = clock_field(type, true);
  return field ? number(device, *field, out) : kInvalidArgument;
}
Return nvmlDeviceGetApplicationsClock(Device device, int type, unsigned* out) {
  if (type == kClockGraphics || type == kClockSm) return number(device, Field::clock_graphics_application, out);
  if (type == kClockMemory) return number(device, Field::clock_memory_application, out);
  return type == kClockVideo ? kNotSupported : kInvalidArgument;
}
Return nvmlDeviceGetClock(Device device, int type, int id, unsigned* out) {
  if (id < 0 || id > 3) return kInvalidArgument;
  const auto field = clock_field(type, id != kClockIdCurrent);
  return field ? number(device, *field, out) : kInvalidArgument;
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* out) {
  return number(device, Field::throttle_reasons, out);
}
Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* out) {
  return number(device, Field::throttle_reasons, out);
}
Return nvmlDeviceGetSupportedClocksEventReasons(Device device, unsigned long long* out) {
  return nvmlDeviceGetSupportedClocksThrottleReasons(device, out);
}
Return nvmlDeviceGetSupportedClocksThrottleReasons(Device device, unsigned long long* out) {
  const Return code = number(device, Field::throttle_reasons, out);
  if (code == kSuccess) *out = 0x1FF;
  return code;
}

Return nvmlDeviceGetCurrPcieLinkGeneration(Device d, unsigned* out) { return number(d, Field::pcie_generation, out); }
Return nvmlDeviceGetCurrPcieLinkWidth(Device d, unsigned* out) { return number(d, Field::pcie_width, out); }
Return nvmlDeviceGetMaxPcieLinkGeneration(Device d, unsigned* out) {
  return number(d, Field::pcie_generation_max, out);
}
Return nvmlDeviceGetMaxPcieLinkWidth(Device d, unsigned* out) { return number(d, Field::pcie_width_max, out); }
Return nvmlDeviceGetPcieReplayCounter(Device d, unsigned* out) { return number(d, Field::pcie_replays, out); }
Return nvmlDeviceGetPcieThroughput(Device device, int counter, unsigned* out) {
  if (counter != kPcieTx && counter != kPcieRx) return kInvalidArgument;
  return number(device, counter == kPcieTx ? Field::pcie_tx : Field::pcie_rx, out);
}

Return nvmlDeviceGetEccMode(Device device, int* current, int* pending) {
  if (const Return code = number(device, Field::ecc_enabled, current); code != kSuccess) return code;
  return number(device, Field::ecc_pending, pending);
}
Return nvmlDeviceGetTotalEccErrors(Device device, int error, int counter, unsigned long long* out) {
  return total_ecc(device, error, counter, out);
}
Return nvmlDeviceGetMemoryErrorCounter(Device device, int error, int counter, int location, unsigned long long* out) {
  // The model keeps all errors in device memory.
  const Return code = total_ecc(device, error, counter, out);
  if (code == kSuccess && location != kMemoryLocationDram) *out = 0;
  return code;
}
Return nvmlDeviceGetRetiredPagesPendingStatus(Device device, int* out) {
  return number(device, Field::retired_pending, out);
}
Return nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                                 unsigned* failure) {
  if (const Return code = number(device, Field::remapped_corrected, corrected); code != kSuccess) return code;
  if (const Return code = number(device, Field::remapped_uncorrected, uncorrected); code != kSuccess) return code;
  if (const Return code = number(device, Field::remapped_pending, pending); code != kSuccess) return code;
  return number(device, Field::remapped_failure, failure);
}

Return nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (values == nullptr || count < 1) return kInvalidArgument;
  for (int i = 0; i < count; ++i) {
    values[i].timestamp = target.fleet->time.count() * 1000;
    values[i].latency_us = 0;
    values[i].result = read_field(device, values[i]);
  }
  return kSuccess;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
