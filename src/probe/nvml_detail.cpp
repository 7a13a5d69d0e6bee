// SPDX-License-Identifier: Apache-2.0
#include "probe/nvml_detail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/base/text.hpp"
#include "probe/nvml_call.hpp"
#include "probe/nvml_rows.hpp"

namespace gpuwarden::probe {
namespace {

using facts::GpuSample;
using nvml::Device;
using nvml::Functions;

/// How long NVML looks at a GPU between two profiling samples. Shorter gaps give coarser figures.
constexpr std::chrono::milliseconds kProfilingGap{100};

template <class Quantity>
void put(std::optional<Quantity>& target, std::optional<unsigned long long> value, std::int64_t scale = 1) {
  if (value && *value <= static_cast<unsigned long long>(INT64_MAX / scale))
    target = Quantity(static_cast<typename Quantity::rep>(*value) * static_cast<typename Quantity::rep>(scale));
}

/// The values of several fields, in one call: one by one they cost a driver call each.
template <std::size_t N>
class FieldValues {
 public:
  FieldValues(const Functions& nvml, Device device, const std::array<unsigned, N>& ids) {
    for (std::size_t i = 0; i < N; ++i) values_[i].field_id = ids[i];
    ok_ = call(nvml.nvmlDeviceGetFieldValues, device, static_cast<int>(N), values_.data()) == nvml::kSuccess;
  }
  std::optional<unsigned long long> operator[](std::size_t i) const {
    const nvml::FieldValue& value = values_[i];
    if (!ok_ || value.result != nvml::kSuccess) return std::nullopt;
    if (value.value_type == nvml::kValueTypeUnsigned) return value.value.u32;
    if (value.value_type == nvml::kValueTypeUnsignedLong) return value.value.ul;
    if (value.value_type == nvml::kValueTypeUnsignedLongLong) return value.value.u64;
    return std::nullopt;
  }

 private:
  std::array<nvml::FieldValue, N> values_{};
  bool ok_ = false;
};

void read_encoder(const Functions& nvml, Device device, GpuSample& sample) {
  unsigned sessions = 0;
  unsigned fps = 0;
  unsigned latency = 0;
  if (call(nvml.nvmlDeviceGetEncoderStats, device, &sessions, &fps, &latency) == nvml::kSuccess) {
    sample.encoder_sessions = Count(sessions);
    sample.encoder_frame_rate = Count(fps);
    sample.encoder_latency = Microseconds(latency);
  }
}

void read_frame_capture(const Functions& nvml, Device device, GpuSample& sample) {
  nvml::FbcStats capture{};
  if (call(nvml.nvmlDeviceGetFBCStats, device, &capture) == nvml::kSuccess)
    sample.frame_capture_sessions = Count(capture.sessions);
}

void read_bar1(const Functions& nvml, Device device, GpuSample& sample) {
  nvml::Bar1Memory bar1{};
  if (call(nvml.nvmlDeviceGetBAR1MemoryInfo, device, &bar1) != nvml::kSuccess) return;
  sample.bar1_total = Bytes(bar1.total);
  sample.bar1_used = Bytes(bar1.used);
  sample.bar1_free = Bytes(bar1.free);
}

/// 580 for "580.65.06"; 0 where the driver does not say.
std::int64_t driver_branch(const Functions& nvml) {
  // A process has one driver for as long as it has the library open: asked once for each library.
  thread_local decltype(nvml.nvmlSystemGetDriverVersion) asked = nullptr;
  thread_local std::int64_t branch = 0;
  if (asked != nullptr && asked == nvml.nvmlSystemGetDriverVersion) return branch;
  std::array<char, 80> text{};
  if (call(nvml.nvmlSystemGetDriverVersion, text.data(), static_cast<unsigned>(text.size())) != nvml::kSuccess)
    return 0;
  asked = nvml.nvmlSystemGetDriverVersion;
  branch = parse_integer(split(text.data(), '.')[0]).value_or(0);
  return branch;
}

/// A field of nvmlDeviceGetFieldValues: its number (0: this driver has none) and where its value goes.
struct FieldRow {
  unsigned (*id)(const nvml::SlowdownFields& slowdowns);
  void (*store)(std::optional<unsigned long long> value, GpuSample& sample);
};

template <unsigned Id>
unsigned always(const nvml::SlowdownFields&) {
  return Id;
}
template <auto Field, unsigned Divisor = 1>
void store_field(std::optional<unsigned long long> value, GpuSample& sample) {
  if (value) put(sample.*Field, *value / Divisor);
}

constexpr FieldRow kFieldRows[] = {
    {always<nvml::kFieldMemoryTemperature>, store_field<&GpuSample::temperature_memory>},
    {always<nvml::kFieldPowerAverage>, store_field<&GpuSample::power_average>},
    {always<nvml::kFieldPowerInstant>, store_field<&GpuSample::power_instant>},
    {[](const nvml::SlowdownFields& fields) { return fields.hw_thermal; },
     store_field<&GpuSample::slowdown_hw_thermal, 1000>},
    {[](const nvml::SlowdownFields& fields) { return fields.hw_power_brake; },
     store_field<&GpuSample::slowdown_hw_power_brake, 1000>},
};

void read_fields(const Functions& nvml, Device device, GpuSample& sample) {
  const nvml::SlowdownFields slowdowns = nvml::slowdown_fields(driver_branch(nvml));
  std::array<unsigned, std::size(kFieldRows)> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = kFieldRows[i].id(slowdowns);
  const FieldValues fields(nvml, device, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != 0) kFieldRows[i].store(fields[i], sample);
  }
}

void read_margin(const Functions& nvml, Device device, GpuSample& sample) {
  nvml::MarginTemperature margin{nvml::kMarginTemperatureV1, 0};
  if (call(nvml.nvmlDeviceGetMarginTemperature, device, &margin) == nvml::kSuccess)
    sample.temperature_margin = Celsius(margin.margin);
}

void read_fans(const Functions& nvml, Device device, GpuSample& sample) {
  unsigned count = 0;
  if (call(nvml.nvmlDeviceGetNumFans, device, &count) != nvml::kSuccess) return;
  for (unsigned i = 0; i < std::min(count, 16U); ++i) {
    facts::Fan fan;
    unsigned speed = 0;
    if (call(nvml.nvmlDeviceGetFanSpeed_v2, device, i, &speed) == nvml::kSuccess && speed <= 200)
      fan.speed = Percent(speed);
    nvml::FanSpeedInfo info{nvml::kFanSpeedInfoV1, i, 0};
    if (call(nvml.nvmlDeviceGetFanSpeedRPM, device, &info) == nvml::kSuccess) fan.rpm = Count(info.speed);
    sample.fans.push_back(fan);
  }
}

std::optional<Count> memory_errors(const Functions& nvml, Device device, int error, int counter, int location) {
  unsigned long long count = 0;
  std::optional<Count> result;
  if (call(nvml.nvmlDeviceGetMemoryErrorCounter, device, error, counter, location, &count) == nvml::kSuccess)
    put(result, count);
  return result;
}

void read_ecc_locations(const Functions& nvml, Device device, GpuSample& sample) {
  static constexpr std::pair<int, const char*> kLocations[] = {{nvml::kMemoryLocationDram, "dram"},
                                                               {nvml::kMemoryLocationSram, "sram"},
                                                               {nvml::kMemoryLocationL1, "l1_cache"},
                                                               {nvml::kMemoryLocationL2, "l2_cache"},
                                                               {nvml::kMemoryLocationRegisterFile, "register_file"},
                                                               {nvml::kMemoryLocationTexture, "texture_memory"},
                                                               {nvml::kMemoryLocationShared, "shared_memory"},
                                                               {nvml::kMemoryLocationCbu, "cbu"}};
  // Without totals there are no parts: a board without ECC is asked nothing more.
  if (!sample.ecc_corrected_volatile && !sample.ecc_uncorrected_volatile) return;
  for (const auto& [location, name] : kLocations) {
    facts::EccCounts counts;
    counts.location = name;
    counts.corrected_volatile = memory_errors(nvml, device, nvml::kEccCorrected, nvml::kEccVolatile, location);
    counts.uncorrected_volatile = memory_errors(nvml, device, nvml::kEccUncorrected, nvml::kEccVolatile, location);
    counts.corrected_aggregate = memory_errors(nvml, device, nvml::kEccCorrected, nvml::kEccAggregate, location);
    counts.uncorrected_aggregate = memory_errors(nvml, device, nvml::kEccUncorrected, nvml::kEccAggregate, location);
    const bool tells = counts.corrected_volatile || counts.uncorrected_volatile || counts.corrected_aggregate ||
                       counts.uncorrected_aggregate;
    if (tells) sample.ecc_locations.push_back(counts);
  }
}

std::optional<Count> retired_pages(const Functions& nvml, Device device, int cause) {
  // Boards retire at most 64 pages; the count alone is told with a null array, too, but not by all drivers.
  std::array<unsigned long long, 128> addresses{};
  auto count = static_cast<unsigned>(addresses.size());
  if (call(nvml.nvmlDeviceGetRetiredPages, device, cause, &count, addresses.data()) != nvml::kSuccess)
    return std::nullopt;
  return Count(count);
}

void read_repairs(const Functions& nvml, Device device, GpuSample& sample) {
  sample.retired_pages_single_bit = retired_pages(nvml, device, nvml::kRetiredSingleBit);
  sample.retired_pages_double_bit = retired_pages(nvml, device, nvml::kRetiredDoubleBit);
  nvml::RowRemapperHistogram banks{};
  if (call(nvml.nvmlDeviceGetRowRemapperHistogram, device, &banks) == nvml::kSuccess) {
    sample.remap_availability = facts::RemapAvailability{Count(banks.max), Count(banks.high), Count(banks.partial),
                                                         Count(banks.low), Count(banks.none)};
  }
}

facts::NvLink read_nvlink(const Functions& nvml, Device device, unsigned link,
                          std::optional<unsigned long long> speed) {
  facts::NvLink fact;
  fact.link = link;
  int active = 0;
  call(nvml.nvmlDeviceGetNvLinkState, device, link, &active);
  fact.active = active != 0;
  unsigned version = 0;
  if (call(nvml.nvmlDeviceGetNvLinkVersion, device, link, &version) == nvml::kSuccess) fact.version = Count(version);
  if (active == 0) return fact;
  put(fact.speed, speed, 1'000'000);
  nvml::PciInfo remote{};
  if (call(nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &remote) == nvml::kSuccess)
    fact.remote = fmt::format("{:08X}:{:02X}:{:02X}.0", remote.domain, remote.bus, remote.device);
  const auto errors = [&](std::optional<Count>& target, int counter) {
    unsigned long long count = 0;
    if (call(nvml.nvmlDeviceGetNvLinkErrorCounter, device, link, counter, &count) == nvml::kSuccess) put(target, count);
  };
  errors(fact.replay_errors, nvml::kNvLinkErrorReplay);
  errors(fact.recovery_errors, nvml::kNvLinkErrorRecovery);
  errors(fact.crc_flit_errors, nvml::kNvLinkErrorCrcFlit);
  errors(fact.crc_data_errors, nvml::kNvLinkErrorCrcData);
  std::array<nvml::FieldValue, 2> traffic{};
  traffic[0].field_id = nvml::kFieldNvLinkThroughputDataTx;
  traffic[1].field_id = nvml::kFieldNvLinkThroughputDataRx;
  traffic[0].scope_id = traffic[1].scope_id = link;
  if (call(nvml.nvmlDeviceGetFieldValues, device, 2, traffic.data()) == nvml::kSuccess) {
    if (traffic[0].result == nvml::kSuccess) put(fact.sent, traffic[0].value.u64, 1024);
    if (traffic[1].result == nvml::kSuccess) put(fact.received, traffic[1].value.u64, 1024);
  }
  return fact;
}

/// Whether they are up, and nothing more: what the judge of health looks at.
void read_nvlink_states(const Functions& nvml, Device device, GpuSample& sample) {
  sample.nvlinks.clear();
  for (unsigned link = 0; link < nvml::kNvLinkMaxLinks; ++link) {
    int active = 0;
    if (call(nvml.nvmlDeviceGetNvLinkState, device, link, &active) != nvml::kSuccess) break;
    facts::NvLink& fact = sample.nvlinks.emplace_back();
    fact.link = link;
    fact.active = active != 0;
  }
}

void read_nvlinks(const Functions& nvml, Device device, GpuSample& sample) {
  sample.nvlinks.clear();
  const FieldValues<2> fields(nvml, device, {nvml::kFieldNvLinkLinkCount, nvml::kFieldNvLinkSpeedCommon});
  for (unsigned link = 0; link < nvml::kNvLinkMaxLinks; ++link) {
    int active = 0;
    if (call(nvml.nvmlDeviceGetNvLinkState, device, link, &active) != nvml::kSuccess) break;
    sample.nvlinks.push_back(read_nvlink(nvml, device, link, fields[1]));
  }
}

struct ProfileRow {
  unsigned metric;
  void (*store)(double value, GpuSample& sample);
};

template <std::optional<Share> GpuSample::* Field>
void store_share(double value, GpuSample& sample) {
  sample.*Field = Share(std::llround(value * 100));
}
template <std::optional<BytesPerSecond> GpuSample::* Field>
void store_rate(double mebibytes, GpuSample& sample) {
  sample.*Field = BytesPerSecond(static_cast<std::uint64_t>(mebibytes * 1048576));
}

constexpr ProfileRow kProfile[] = {{nvml::kGpmSmUtil, store_share<&GpuSample::sm_active>},
                                   {nvml::kGpmSmOccupancy, store_share<&GpuSample::sm_occupancy>},
                                   {nvml::kGpmAnyTensorUtil, store_share<&GpuSample::tensor_active>},
                                   {nvml::kGpmDramBandwidthUtil, store_share<&GpuSample::dram_active>},
                                   {nvml::kGpmFp64Util, store_share<&GpuSample::fp64_active>},
                                   {nvml::kGpmFp32Util, store_share<&GpuSample::fp32_active>},
                                   {nvml::kGpmFp16Util, store_share<&GpuSample::fp16_active>},
                                   {nvml::kGpmNvLinkTx, store_rate<&GpuSample::nvlink_sent>},
                                   {nvml::kGpmNvLinkRx, store_rate<&GpuSample::nvlink_received>}};

void read_profile(const Functions& nvml, Device device, Clock& clock, GpuSample& sample) {
  nvml::GpmSupport support{nvml::kGpmSupportVersion, 0};
  if (call(nvml.nvmlGpmQueryDeviceSupport, device, &support) != nvml::kSuccess || support.supported == 0) return;
  nvml::GpmMetricsGet get{};
  get.version = nvml::kGpmMetricsGetVersion;
  const ScopeGuard free_samples([&] {
    if (get.first != nullptr) call(nvml.nvmlGpmSampleFree, get.first);
    if (get.second != nullptr) call(nvml.nvmlGpmSampleFree, get.second);
  });
  if (call(nvml.nvmlGpmSampleAlloc, &get.first) != nvml::kSuccess) return;
  if (call(nvml.nvmlGpmSampleAlloc, &get.second) != nvml::kSuccess) return;
  if (call(nvml.nvmlGpmSampleGet, device, get.first) != nvml::kSuccess) return;
  clock.sleep_for(kProfilingGap);
  if (call(nvml.nvmlGpmSampleGet, device, get.second) != nvml::kSuccess) return;
  for (const ProfileRow& row : kProfile) get.metrics[get.count++].id = row.metric;
  if (call(nvml.nvmlGpmMetricsGet, &get) != nvml::kSuccess) return;
  for (unsigned i = 0; i < get.count; ++i) {
    const double value = get.metrics[i].value;
    if (get.metrics[i].result == nvml::kSuccess && value >= 0 && value < 1e9) kProfile[i].store(value, sample);
  }
}

/// What is cheap, but few need. What NVML tells by a plain getter is a row here and nothing else.
constexpr SampleRow kDetailRows[] = {
    {read_sampled_share<&GpuSample::utilization_encoder, &Functions::nvmlDeviceGetEncoderUtilization>},
    {read_sampled_share<&GpuSample::utilization_decoder, &Functions::nvmlDeviceGetDecoderUtilization>},
    {read_sampled_share<&GpuSample::utilization_jpeg, &Functions::nvmlDeviceGetJpgUtilization>},
    {read_sampled_share<&GpuSample::utilization_ofa, &Functions::nvmlDeviceGetOfaUtilization>},
    {read_encoder, Pace::slow},
    {read_frame_capture, Pace::slow},
    {read_bar1, Pace::slow},
    {read_fields},
    {read_margin},
    {read_plain<&GpuSample::power_limit_requested, &Functions::nvmlDeviceGetPowerManagementLimit>, Pace::slow},
    {read_one_of<&GpuSample::clock_graphics_application, &Functions::nvmlDeviceGetApplicationsClock,
                 nvml::kClockGraphics>,
     Pace::slow},
    {read_one_of<&GpuSample::clock_memory_application, &Functions::nvmlDeviceGetApplicationsClock, nvml::kClockMemory>,
     Pace::slow},
    {read_plain<&GpuSample::pcie_replays, &Functions::nvmlDeviceGetPcieReplayCounter>, Pace::slow},
    {read_violation<&GpuSample::slowdown_total, nvml::kPolicyTotalApplicationClocks>, Pace::slow},
    {read_violation<&GpuSample::slowdown_power, nvml::kPolicyPower>, Pace::slow},
    {read_violation<&GpuSample::slowdown_thermal, nvml::kPolicyThermal>, Pace::slow},
    {read_violation<&GpuSample::slowdown_sync_boost, nvml::kPolicySyncBoost>, Pace::slow},
    {read_violation<&GpuSample::slowdown_board_limit, nvml::kPolicyBoardLimit>, Pace::slow},
    {read_violation<&GpuSample::slowdown_low_utilization, nvml::kPolicyLowUtilization>, Pace::slow},
    {read_violation<&GpuSample::slowdown_reliability, nvml::kPolicyReliability>, Pace::slow},
    {read_fans, Pace::slow},
    {read_ecc_locations, Pace::slow},
    {read_repairs, Pace::slow},
    {read_nvlink_states, Pace::series},
};

/// What costs time: the driver measures for 20 ms, or asks every link.
constexpr SampleRow kSlowRows[] = {
    {read_one_of<&GpuSample::pcie_sent, &Functions::nvmlDeviceGetPcieThroughput, nvml::kPcieTx, 1000>},
    {read_one_of<&GpuSample::pcie_received, &Functions::nvmlDeviceGetPcieThroughput, nvml::kPcieRx, 1000>},
    {read_nvlinks, Pace::slow},
};

std::optional<Celsius> threshold(const Functions& nvml, Device device, int which) {
  unsigned value = 0;
  if (call(nvml.nvmlDeviceGetTemperatureThreshold, device, which, &value) != nvml::kSuccess || value > 150)
    return std::nullopt;
  return Celsius(value);
}

std::optional<std::string> inforom(const Functions& nvml, Device device, int object) {
  std::array<char, 64> text{};
  if (call(nvml.nvmlDeviceGetInforomVersion, device, object, text.data(), 16U) != nvml::kSuccess) return std::nullopt;
  return printable(text.data());
}

std::optional<facts::Fabric> read_fabric(const Functions& nvml, Device device) {
  nvml::FabricInfo info{};
  info.version = nvml::kFabricInfoV2;
  if (call(nvml.nvmlDeviceGetGpuFabricInfoV, device, &info) != nvml::kSuccess) return std::nullopt;
  if (info.state == nvml::kFabricNotSupported) return std::nullopt;
  facts::Fabric fabric;
  fabric.state = info.state == nvml::kFabricCompleted    ? "completed"
                 : info.state == nvml::kFabricInProgress ? "in_progress"
                                                         : "not_started";
  if (info.state == nvml::kFabricCompleted)
    fabric.status = info.status == nvml::kSuccess ? "success" : fmt::format("NVML code {}", info.status);
  const auto& u = info.cluster_uuid;
  if (std::ranges::any_of(u, [](unsigned char byte) { return byte != 0; })) {
    fabric.cluster_uuid =
        fmt::format("{:02x}-{:02x}-{:02x}-{:02x}-{:02x}", fmt::join(u, u + 4, ""), fmt::join(u + 4, u + 6, ""),
                    fmt::join(u + 6, u + 8, ""), fmt::join(u + 8, u + 10, ""), fmt::join(u + 10, u + 16, ""));
  }
  fabric.clique = info.clique;
  return fabric;
}

}  // namespace

void read_detailed_inventory(const Functions& nvml, Device device, facts::Gpu& gpu) {
  static constexpr const char* kModes[] = {"none", "pass_through", "vgpu", "host_vgpu", "host_vsga"};
  gpu.clock_video_max = read_clock(nvml.nvmlDeviceGetMaxClockInfo, device, nvml::kClockVideo);
  gpu.temperature_shutdown = threshold(nvml, device, nvml::kThresholdShutdown);
  gpu.temperature_slowdown = threshold(nvml, device, nvml::kThresholdSlowdown);
  gpu.temperature_max = threshold(nvml, device, nvml::kThresholdGpuMax);
  gpu.temperature_memory_max = threshold(nvml, device, nvml::kThresholdMemoryMax);
  gpu.temperature_acoustic = threshold(nvml, device, nvml::kThresholdAcousticCurrent);
  gpu.memory_bus_width = read_number<Count>(nvml.nvmlDeviceGetMemoryBusWidth, device);
  unsigned board = 0;
  if (call(nvml.nvmlDeviceGetBoardId, device, &board) == nvml::kSuccess) gpu.board_id = fmt::format("{:#x}", board);
  gpu.inforom_image_version = read_text(nvml.nvmlDeviceGetInforomImageVersion, device);
  gpu.inforom_oem_version = inforom(nvml, device, nvml::kInforomOem);
  gpu.inforom_ecc_version = inforom(nvml, device, nvml::kInforomEcc);
  gpu.inforom_power_version = inforom(nvml, device, nvml::kInforomPower);
  std::array<char, 256> firmware{};
  if (call(nvml.nvmlDeviceGetGspFirmwareVersion, device, firmware.data()) == nvml::kSuccess && firmware[0] != '\0')
    gpu.gsp_firmware_version = printable(firmware.data());
  int mode = -1;
  if (call(nvml.nvmlDeviceGetVirtualizationMode, device, &mode) == nvml::kSuccess && mode >= 0 && mode <= 4)
    gpu.virtualization_mode = kModes[mode];
  nvml::AddressingMode addressing{nvml::kAddressingModeV1, 0};
  if (call(nvml.nvmlDeviceGetAddressingMode, device, &addressing) == nvml::kSuccess && addressing.value <= 2)
    gpu.addressing_mode = std::array{"none", "HMM", "ATS"}[addressing.value];
  // One switch for the whole machine: GPUs that cannot do it are asked by their own memory split.
  nvml::ConfComputeSystemState confidential{};
  nvml::ConfComputeMemSizeInfo split{};
  if (call(nvml.nvmlDeviceGetConfComputeMemSizeInfo, device, &split) == nvml::kSuccess &&
      call(nvml.nvmlSystemGetConfComputeState, &confidential) == nvml::kSuccess)
    gpu.confidential_computing = confidential.feature != 0;
}

void read_detailed_settings(const Functions& nvml, Device device, facts::Gpu& gpu) {
  gpu.accounting = read_flag(nvml.nvmlDeviceGetAccountingMode, device);
  gpu.display_attached = read_flag(nvml.nvmlDeviceGetDisplayMode, device);
  gpu.display_active = read_flag(nvml.nvmlDeviceGetDisplayActive, device);
  gpu.fabric = read_fabric(nvml, device);
}

void read_detailed_sample(const Functions& nvml, Device device, GpuSample& sample, RowSet set) {
  read_rows(kDetailRows, set, nvml, device, sample);
}

void read_slow_sample(const Functions& nvml, Device device, Clock& clock, GpuSample& sample, RowSet set) {
  read_rows(kSlowRows, set, nvml, device, sample);
  read_profile(nvml, device, clock, sample);
}

void read_process_utilization(const Functions& nvml, Device device, facts::GpuRecord& record) {
  if (!record.processes || record.processes->empty()) return;
  std::array<nvml::ProcessUtilizationSample, 256> samples{};
  auto count = static_cast<unsigned>(samples.size());
  if (call(nvml.nvmlDeviceGetProcessUtilization, device, samples.data(), &count, 0ULL) != nvml::kSuccess) return;
  const auto share = [](unsigned value) { return value <= 100 ? std::optional(Percent(value)) : std::nullopt; };
  // A process may have several samples: the newest holds.
  std::sort(samples.begin(), samples.begin() + std::min<std::size_t>(count, samples.size()),
            [](const auto& a, const auto& b) { return a.time_stamp < b.time_stamp; });
  for (std::size_t i = 0; i < std::min<std::size_t>(count, samples.size()); ++i) {
    for (facts::GpuProcess& process : *record.processes) {
      if (process.pid.value != static_cast<std::int32_t>(samples[i].pid)) continue;
      process.sm = share(samples[i].sm);
      process.memory_busy = share(samples[i].memory);
      process.encoder = share(samples[i].encoder);
      process.decoder = share(samples[i].decoder);
    }
  }
}

}  // namespace gpuwarden::probe
