// SPDX-License-Identifier: Apache-2.0
// What only a full reading asks for: sessions, violation times, repairs, InfoROM, fabric, NVLink counters, profiling.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;
using sim::Field;

/// InfoROM objects are what data center boards have.
Return inforom(Device device, std::string_view version, char* buffer, unsigned length) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  return target.gpu->spec->model.ecc ? copy_text(version, buffer, length) : kNotSupported;
}

/// A profiling sample: the readings of one moment.
struct Sample {
  sim::Readings readings;
};

Field profile_field(unsigned metric) {
  switch (metric) {
    case kGpmSmUtil:
      return Field::sm_active;
    case kGpmSmOccupancy:
      return Field::sm_occupancy;
    case kGpmAnyTensorUtil:
      return Field::tensor_active;
    case kGpmDramBandwidthUtil:
      return Field::dram_active;
    case kGpmFp64Util:
      return Field::fp64_active;
    case kGpmFp32Util:
      return Field::fp32_active;
    case kGpmFp16Util:
      return Field::fp16_active;
    case kGpmNvLinkRx:
      return Field::nvlink_rx;
    case kGpmNvLinkTx:
      return Field::nvlink_tx;
    default:
      return Field::count_;
  }
}

}  // namespace

extern "C" {

Return nvmlDeviceGetEncoderStats(Device device, unsigned* sessions, unsigned* fps, unsigned* latency) {
  if (const Return code = number(device, Field::encoder_sessions, sessions); code != kSuccess) return code;
  if (const Return code = number(device, Field::encoder_fps, fps); code != kSuccess) return code;
  return number(device, Field::encoder_latency, latency);
}

Return nvmlDeviceGetFBCStats(Device device, FbcStats* out) {
  if (out == nullptr) return kInvalidArgument;
  *out = {};
  return number(device, Field::fbc_sessions, &out->sessions);
}

Return nvmlDeviceGetViolationStatus(Device device, int policy, ViolationTime* out) {
  static constexpr Field kPolicies[] = {Field::slowdown_power,           Field::slowdown_thermal,
                                        Field::slowdown_sync_boost,      Field::slowdown_board_limit,
                                        Field::slowdown_low_utilization, Field::slowdown_reliability};
  const bool total = policy == kPolicyTotalApplicationClocks;
  if (out == nullptr || policy < 0 || (policy > kPolicyReliability && !total)) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  out->reference_time = static_cast<unsigned long long>(target.fleet->time.count()) * 1'000'000;
  if (!total) return number(device, kPolicies[policy], &out->violation_time, 1000);
  // Limits hold the clocks back at the same time: the one that did it longest tells how long it was.
  out->violation_time = 0;
  for (const Field field : kPolicies) {
    unsigned long long time = 0;
    if (const Return code = number(device, field, &time, 1000); code != kSuccess) return code;
    out->violation_time = std::max(out->violation_time, time);
  }
  return kSuccess;
}

Return nvmlDeviceGetRetiredPages(Device device, int cause, unsigned* count, unsigned long long* addresses) {
  if (count == nullptr || cause < 0 || cause > kRetiredDoubleBit) return kInvalidArgument;
  unsigned pages = 0;
  const Field field = cause == kRetiredSingleBit ? Field::retired_single_bit : Field::retired_double_bit;
  if (const Return code = number(device, field, &pages); code != kSuccess) return code;
  const unsigned room = *count;
  *count = pages;
  if (room < pages) return kInsufficientSize;
  for (unsigned i = 0; i < pages && addresses != nullptr; ++i) addresses[i] = 0x10000ULL * (i + 1);
  return kSuccess;
}

Return nvmlDeviceGetRowRemapperHistogram(Device device, RowRemapperHistogram* out) {
  if (out == nullptr) return kInvalidArgument;
  if (const Return code = number(device, Field::remap_max, &out->max); code != kSuccess) return code;
  if (const Return code = number(device, Field::remap_high, &out->high); code != kSuccess) return code;
  if (const Return code = number(device, Field::remap_partial, &out->partial); code != kSuccess) return code;
  if (const Return code = number(device, Field::remap_low, &out->low); code != kSuccess) return code;
  return number(device, Field::remap_none, &out->none);
}

Return nvmlDeviceGetInforomVersion(Device device, int object, char* buffer, unsigned length) {
  static constexpr std::string_view kVersions[] = {"2.1", "7.16", ""};
  if (object < kInforomOem || object > kInforomPower) return kInvalidArgument;
  const Return code = inforom(device, kVersions[object], buffer, length);
  return code == kSuccess && object == kInforomPower ? kNotSupported : code;
}
Return nvmlDeviceGetInforomImageVersion(Device device, char* buffer, unsigned length) {
  return inforom(device, "G520.0200.00.05", buffer, length);
}

Return nvmlDeviceGetGspFirmwareVersion(Device device, char* buffer) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  // Turing and later carry the processor.
  const auto& model = target.gpu->spec->model;
  if (model.capability_major * 10 + model.capability_minor < 75) return kNotSupported;
  return copy_text(fleet()->spec().driver, buffer, 64);
}

Return nvmlDeviceGetVirtualizationMode(Device d, int* mode) { return number(d, Field::virtualization, mode); }
Return nvmlDeviceGetAccountingMode(Device d, int* mode) { return number(d, Field::accounting, mode); }

Return nvmlDeviceGetFanSpeedRPM(Device device, FanSpeedInfo* out) {
  if (out == nullptr) return kInvalidArgument;
  if (out->version != kFanSpeedInfoV1) return kArgumentVersionMismatch;
  return out->fan == 0 ? number(device, Field::fan_rpm, &out->speed) : kInvalidArgument;
}

Return nvmlDeviceGetMarginTemperature(Device device, MarginTemperature* out) {
  if (out == nullptr) return kInvalidArgument;
  if (out->version != kMarginTemperatureV1) return kArgumentVersionMismatch;
  return number(device, Field::temperature_margin, &out->margin);
}

Return nvmlDeviceGetAddressingMode(Device device, AddressingMode* out) {
  if (out == nullptr) return kInvalidArgument;
  if (out->version != kAddressingModeV1) return kArgumentVersionMismatch;
  return number(device, Field::addressing_mode, &out->value);
}

// The state is the system's: no GPU is asked, so that one that hangs keeps nobody from it.
Return nvmlSystemGetConfComputeState(ConfComputeSystemState* out) {
  if (out == nullptr) return kInvalidArgument;
  *out = {};
  if (const Return code = require_init(); code != kSuccess) return code;
  const auto live = fleet();
  const auto view = live ? live->view() : fail(ErrorCode::not_found, "");
  if (!view) return kUnknown;
  for (const auto& gpu : (*view)->gpus) {
    const auto state = sim::at(gpu.readings, Field::confidential);
    if (!state) continue;
    out->feature = static_cast<decltype(out->feature)>(*state);
    return kSuccess;
  }
  return kNotSupported;
}

Return nvmlDeviceGetGpuFabricInfoV(Device device, FabricInfo* out) {
  if (out == nullptr) return kInvalidArgument;
  if (out->version != kFabricInfoV2) return kArgumentVersionMismatch;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  const auto state = sim::at(target.gpu->readings, Field::fabric_state);
  if (!state) return kNotSupported;
  std::memset(out->cluster_uuid, 0, sizeof out->cluster_uuid);
  out->status = kSuccess;
  out->clique = static_cast<unsigned>(sim::at(target.gpu->readings, Field::fabric_clique).value_or(0));
  out->state = static_cast<unsigned char>(*state);
  out->health_mask = 0;
  return kSuccess;
}

Return nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, int counter, unsigned long long* out) {
  int active = 0;
  if (counter < kNvLinkErrorReplay || counter > kNvLinkErrorCrcData) return kInvalidArgument;
  if (const Return code = nvmlDeviceGetNvLinkState(device, link, &active); code != kSuccess) return code;
  if (counter == kNvLinkErrorReplay) return number(device, Field::nvlink_replays, out);
  if (counter == kNvLinkErrorCrcFlit || counter == kNvLinkErrorCrcData)
    return number(device, Field::nvlink_crc_errors, out);
  if (out == nullptr) return kInvalidArgument;
  *out = 0;
  return kSuccess;
}

Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* out) {
  if (out == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  out->supported = sim::at(target.gpu->readings, Field::sm_active) ? 1 : 0;
  return kSuccess;
}

Return nvmlGpmSampleAlloc(GpmSample* out) {
  if (out == nullptr) return kInvalidArgument;
  *out = reinterpret_cast<GpmSample>(new Sample());
  return kSuccess;
}
Return nvmlGpmSampleFree(GpmSample sample) {
  delete reinterpret_cast<Sample*>(sample);
  return kSuccess;
}

Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  if (sample == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (!sim::at(target.gpu->readings, Field::sm_active)) return kNotSupported;
  reinterpret_cast<Sample*>(sample)->readings = target.gpu->readings;
  return kSuccess;
}

Return nvmlGpmMetricsGet(GpmMetricsGet* get) {
  if (get == nullptr || get->first == nullptr || get->second == nullptr) return kInvalidArgument;
  if (get->version != kGpmMetricsGetVersion) return kArgumentVersionMismatch;
  const auto& first = reinterpret_cast<const Sample*>(get->first)->readings;
  const auto& second = reinterpret_cast<const Sample*>(get->second)->readings;
  for (unsigned i = 0; i < std::min(get->count, 98U); ++i) {
    GpmMetric& metric = get->metrics[i];
    metric.short_name = metric.long_name = metric.unit = nullptr;
    const Field field = profile_field(metric.id);
    const bool known = field != Field::count_ && sim::at(first, field) && sim::at(second, field);
    metric.result = known ? kSuccess : kNotSupported;
    if (known) metric.value = (*sim::at(first, field) + *sim::at(second, field)) / 2;
  }
  return kSuccess;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
