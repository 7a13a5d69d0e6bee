// SPDX-License-Identifier: Apache-2.0
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using F = Functions;

template <auto function>
std::string sampled_detail(const Nvml& nvml, Device device) {
  unsigned value = 0;
  unsigned period = 0;
  const Return code = (nvml.*function)(device, &value, &period);
  return say(code, value, period > 0 ? "sampled" : "no period");
}

std::string encoder(const Nvml& nvml, Device device) {
  std::array<unsigned, 3> v{};
  const Return code = nvml.nvmlDeviceGetEncoderStats(device, v.data(), &v[1], &v[2]);
  return say(code, v[0], v[1], v[2]);
}

std::string capture(const Nvml& nvml, Device device) {
  FbcStats stats{};
  const Return code = nvml.nvmlDeviceGetFBCStats(device, &stats);
  return say(code, stats.sessions);
}

template <int policy>
std::string violation(const Nvml& nvml, Device device) {
  ViolationTime time{};
  const Return code = nvml.nvmlDeviceGetViolationStatus(device, policy, &time);
  return say(code, time.violation_time);
}

template <int cause>
std::string retired(const Nvml& nvml, Device device) {
  std::array<unsigned long long, 64> addresses{};
  auto count = static_cast<unsigned>(addresses.size());
  const Return code = nvml.nvmlDeviceGetRetiredPages(device, cause, &count, addresses.data());
  return say(code, count, count > 0 && addresses[count - 1] != 0 ? "with addresses" : "none");
}

std::string banks(const Nvml& nvml, Device device) {
  RowRemapperHistogram h{};
  const Return code = nvml.nvmlDeviceGetRowRemapperHistogram(device, &h);
  return say(code, h.max, h.high, h.partial, h.low, h.none);
}

template <int object>
std::string inforom(const Nvml& nvml, Device device) {
  std::array<char, 16> buffer{};
  const Return code = nvml.nvmlDeviceGetInforomVersion(device, object, buffer.data(), buffer.size());
  return say(code, buffer.data());
}

std::string firmware(const Nvml& nvml, Device device) {
  std::array<char, 64> buffer{};
  const Return code = nvml.nvmlDeviceGetGspFirmwareVersion(device, buffer.data());
  return say(code, buffer.data());
}

std::string rpm(const Nvml& nvml, Device device) {
  FanSpeedInfo info{kFanSpeedInfoV1, 0, 0};
  const Return code = nvml.nvmlDeviceGetFanSpeedRPM(device, &info);
  return say(code, info.speed);
}

std::string margin(const Nvml& nvml, Device device) {
  MarginTemperature info{kMarginTemperatureV1, 0};
  const Return code = nvml.nvmlDeviceGetMarginTemperature(device, &info);
  return say(code, info.margin);
}

std::string fabric(const Nvml& nvml, Device device) {
  FabricInfo info{};
  info.version = kFabricInfoV2;
  const Return code = nvml.nvmlDeviceGetGpuFabricInfoV(device, &info);
  return say(code, int{info.state}, info.clique);
}

std::string addressing(const Nvml& nvml, Device device) {
  AddressingMode mode{kAddressingModeV1, 0};
  const Return code = nvml.nvmlDeviceGetAddressingMode(device, &mode);
  return say(code, mode.value);
}

std::string confidential_state(const Nvml& nvml, Device) {
  ConfComputeSystemState state{};
  const Return code = nvml.nvmlSystemGetConfComputeState(&state);
  return say(code, state.feature);
}

template <int counter>
std::string link_errors(const Nvml& nvml, Device device) {
  unsigned long long count = 0;
  const Return code = nvml.nvmlDeviceGetNvLinkErrorCounter(device, 0, counter, &count);
  return say(code, count);
}

}  // namespace

std::vector<Proof> detail_proofs() {
  return {
      {"nvmlDeviceGetJpgUtilization", sampled_detail<&F::nvmlDeviceGetJpgUtilization>, "0 sampled",
       set("jpeg_utilization", 5), "5 sampled"},
      {"nvmlDeviceGetOfaUtilization", sampled_detail<&F::nvmlDeviceGetOfaUtilization>, "0 sampled",
       set("ofa_utilization", 6), "6 sampled"},
      {"nvmlDeviceGetEncoderStats", encoder, "0 0 0", set("encoder_sessions", 2), "2 0 0"},
      {"nvmlDeviceGetEncoderStats", encoder, "0 0 0", set("encoder_fps", 60), "0 60 0"},
      {"nvmlDeviceGetEncoderStats", encoder, "0 0 0", set("encoder_latency", 900), "0 0 900"},
      {"nvmlDeviceGetFBCStats", capture, "0", set("fbc_sessions", 3), "3"},
      {"nvmlDeviceGetViolationStatus", violation<kPolicyPower>, "0", set("slowdown_power", 7), "7000"},
      {"nvmlDeviceGetViolationStatus", violation<kPolicyThermal>, "0", set("slowdown_thermal", 8), "8000"},
      {"nvmlDeviceGetViolationStatus", violation<kPolicySyncBoost>, "0", set("slowdown_sync_boost", 1), "1000"},
      {"nvmlDeviceGetViolationStatus", violation<kPolicyBoardLimit>, "0", set("slowdown_board_limit", 2), "2000"},
      {"nvmlDeviceGetViolationStatus", violation<kPolicyLowUtilization>, "0", set("slowdown_low_utilization", 3),
       "3000"},
      {"nvmlDeviceGetViolationStatus", violation<kPolicyReliability>, "0", set("slowdown_reliability", 4), "4000"},
      {"nvmlDeviceGetViolationStatus", violation<kPolicyTotalApplicationClocks>, "0", set("slowdown_thermal", 8),
       "8000"},
      {"nvmlDeviceGetRetiredPages", retired<kRetiredSingleBit>, "error 3", set("retired_single_bit", 2),
       "2 with addresses"},
      {"nvmlDeviceGetRetiredPages", retired<kRetiredDoubleBit>, "error 3", set("retired_double_bit", 1),
       "1 with addresses"},
      {"nvmlDeviceGetRowRemapperHistogram", banks, "640 0 0 0 0", set("remap_partial", 3), "640 0 3 0 0"},
      {"nvmlDeviceGetInforomVersion", inforom<kInforomEcc>, "7.16", fault("lost"), "error 15"},
      {"nvmlDeviceGetInforomVersion", inforom<kInforomPower>, "error 3", fault("lost"), "error 15"},
      {"nvmlDeviceGetInforomImageVersion", text<&F::nvmlDeviceGetInforomImageVersion>, "G520.0200.00.05", fault("lost"),
       "error 15"},
      {"nvmlDeviceGetGspFirmwareVersion", firmware, "580.65.06", nullptr, "570.86.10"},
      {"nvmlDeviceGetVirtualizationMode", number<&F::nvmlDeviceGetVirtualizationMode>, "0", set("virtualization", 1),
       "1"},
      {"nvmlDeviceGetAccountingMode", number<&F::nvmlDeviceGetAccountingMode>, "0", set("accounting", 1), "1"},
      {"nvmlDeviceGetFanSpeedRPM", rpm, "error 3", set("fan_rpm", 1500), "1500"},
      {"nvmlDeviceGetMarginTemperature", margin, "error 3", set("temperature_margin", 17), "17"},
      {"nvmlDeviceGetAddressingMode", addressing, "0", set("addressing_mode", 1), "1"},
      {"nvmlSystemGetConfComputeState", confidential_state, "error 3", set("confidential", 1), "1"},
      {"nvmlDeviceGetGpuFabricInfoV", fabric, "error 3", nullptr, "3 0"},
      {"nvmlDeviceGetNvLinkErrorCounter", link_errors<kNvLinkErrorReplay>, "0", set("nvlink_replays", 12), "12"},
      {"nvmlDeviceGetNvLinkErrorCounter", link_errors<kNvLinkErrorCrcFlit>, "0", set("nvlink_crc_errors", 13), "13"},
      {"nvmlDeviceGetNvLinkErrorCounter", link_errors<kNvLinkErrorRecovery>, "0", fault("lost"), "error 15"},
  };
}

}  // namespace gpuwarden::nvml
