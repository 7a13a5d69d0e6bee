// SPDX-License-Identifier: Apache-2.0
#include "probe/nvml_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"
#include "probe/nvml_call.hpp"
#include "probe/nvml_rows.hpp"

namespace gpuwarden::probe {
namespace {

using facts::GpuRecord;
using facts::GpuSample;
using facts::GpuState;
using nvml::Device;
using nvml::Functions;
using nvml::Return;

/// "0-3,8" from a bit mask.
std::string list_of(const unsigned long* words, std::size_t count) {
  std::vector<std::string> parts;
  const auto has = [&](std::size_t bit) { return bit < count * 64 && (words[bit / 64] >> (bit % 64) & 1UL) != 0; };
  for (std::size_t bit = 0; bit < count * 64; ++bit) {
    if (!has(bit)) continue;
    const std::size_t first = bit;
    while (has(bit + 1)) ++bit;
    parts.push_back(first == bit ? fmt::format("{}", first) : fmt::format("{}-{}", first, bit));
  }
  return join(parts, ",");
}

std::optional<std::string> architecture_of(const Functions& nvml, Device device, const facts::Gpu& gpu) {
  static constexpr std::array<std::pair<unsigned, std::string_view>, 9> kNames{{{nvml::kArchKepler, "Kepler"},
                                                                                {nvml::kArchMaxwell, "Maxwell"},
                                                                                {nvml::kArchPascal, "Pascal"},
                                                                                {nvml::kArchVolta, "Volta"},
                                                                                {nvml::kArchTuring, "Turing"},
                                                                                {nvml::kArchAmpere, "Ampere"},
                                                                                {nvml::kArchAda, "Ada"},
                                                                                {nvml::kArchHopper, "Hopper"},
                                                                                {nvml::kArchBlackwell, "Blackwell"}}};
  unsigned number = 0;
  if (call(nvml.nvmlDeviceGetArchitecture, device, &number) == nvml::kSuccess) {
    for (const auto& [known, name] : kNames) {
      if (known == number) return std::string(name);
    }
  }
  const auto* model = knowledge::find_gpu_model(gpu.name);
  return model != nullptr ? std::optional(std::string(model->architecture)) : std::nullopt;
}

std::optional<std::string> brand_of(const Functions& nvml, Device device) {
  static constexpr std::array<std::pair<int, std::string_view>, 9> kNames{{{nvml::kBrandQuadro, "Quadro"},
                                                                           {nvml::kBrandTesla, "Tesla"},
                                                                           {nvml::kBrandGeForce, "GeForce"},
                                                                           {nvml::kBrandTitan, "Titan"},
                                                                           {nvml::kBrandQuadroRtx, "Quadro RTX"},
                                                                           {nvml::kBrandNvidiaRtx, "NVIDIA RTX"},
                                                                           {nvml::kBrandNvidia, "NVIDIA"},
                                                                           {nvml::kBrandGeForceRtx, "GeForce RTX"},
                                                                           {nvml::kBrandTitanRtx, "Titan RTX"}}};
  int number = 0;
  if (call(nvml.nvmlDeviceGetBrand, device, &number) != nvml::kSuccess) return std::nullopt;
  for (const auto& [known, name] : kNames) {
    if (known == number) return std::string(name);
  }
  return std::nullopt;
}

void read_place(const Functions& nvml, Device device, facts::Gpu& gpu) {
  std::array<unsigned long, 32> mask{};
  if (call(nvml.nvmlDeviceGetCpuAffinity, device, static_cast<unsigned>(mask.size()), mask.data()) == nvml::kSuccess) {
    gpu.cpu_affinity = list_of(mask.data(), mask.size());
  }
  std::array<unsigned long, 2> nodes{};
  if (call(nvml.nvmlDeviceGetMemoryAffinity, device, static_cast<unsigned>(nodes.size()), nodes.data(),
           nvml::kAffinityScopeNode) == nvml::kSuccess) {
    if (const auto node = parse_integer(list_of(nodes.data(), nodes.size()))) gpu.numa_node = static_cast<int>(*node);
  }
}

void read_limits(const Functions& nvml, Device device, facts::Gpu& gpu) {
  unsigned low = 0;
  unsigned high = 0;
  if (call(nvml.nvmlDeviceGetPowerManagementLimitConstraints, device, &low, &high) == nvml::kSuccess) {
    gpu.power_limit_min = Milliwatts(low);
    gpu.power_limit_max = Milliwatts(high);
  }
  gpu.power_limit_default = read_number<Milliwatts>(nvml.nvmlDeviceGetPowerManagementDefaultLimit, device);
  gpu.clock_graphics_max = read_clock(nvml.nvmlDeviceGetMaxClockInfo, device, nvml::kClockGraphics);
  gpu.clock_sm_max = read_clock(nvml.nvmlDeviceGetMaxClockInfo, device, nvml::kClockSm);
  gpu.clock_memory_max = read_clock(nvml.nvmlDeviceGetMaxClockInfo, device, nvml::kClockMemory);
  gpu.pcie_generation_max = read_number<Count>(nvml.nvmlDeviceGetMaxPcieLinkGeneration, device);
  gpu.pcie_width_max = read_number<Count>(nvml.nvmlDeviceGetMaxPcieLinkWidth, device);
}

void read_cores(const Functions& nvml, Device device, facts::Gpu& gpu) {
  gpu.cuda_cores = read_number<Count>(nvml.nvmlDeviceGetNumGpuCores, device);
  if (const auto* model = knowledge::find_gpu_model(gpu.name)) {
    if (!gpu.cuda_cores && model->cuda_cores > 0) gpu.cuda_cores = Count(model->cuda_cores);
    if (model->multiprocessors > 0) gpu.multiprocessors = Count(model->multiprocessors);
  }
  if (gpu.multiprocessors || !gpu.cuda_cores || !gpu.compute_capability) return;
  const auto per_sm =
      knowledge::cuda_cores_per_multiprocessor(gpu.compute_capability->major, gpu.compute_capability->minor);
  if (per_sm) gpu.multiprocessors = Count(gpu.cuda_cores->value / *per_sm);
}

void read_utilization(const Functions& nvml, Device device, GpuSample& sample) {
  nvml::Utilization rates{};
  if (call(nvml.nvmlDeviceGetUtilizationRates, device, &rates) != nvml::kSuccess) return;
  // Some drivers give rubbish in the first moments after loading; a share above 100 is none.
  if (rates.gpu <= 100) sample.utilization_gpu = Percent(rates.gpu);
  if (rates.memory <= 100) sample.utilization_memory = Percent(rates.memory);
}

nvml::Return read_memory_figures(const Functions& nvml, Device device, GpuSample& sample) {
  nvml::MemoryV2 v2{};
  v2.version = nvml::kMemoryV2;
  if (call(nvml.nvmlDeviceGetMemoryInfo_v2, device, &v2) == nvml::kSuccess) {
    sample.memory_total = Bytes(v2.total);
    sample.memory_used = Bytes(v2.used);
    sample.memory_free = Bytes(v2.free);
    sample.memory_reserved = Bytes(v2.reserved);
    return nvml::kSuccess;
  }
  nvml::Memory v1{};
  const nvml::Return code = call(nvml.nvmlDeviceGetMemoryInfo, device, &v1);
  if (code != nvml::kSuccess) return code;
  sample.memory_total = Bytes(v1.total);
  sample.memory_used = Bytes(v1.used);
  sample.memory_free = Bytes(v1.free);
  return code;
}

void read_memory(const Functions& nvml, Device device, GpuSample& sample) { read_memory_figures(nvml, device, sample); }

void read_temperature(const Functions& nvml, Device device, GpuSample& sample) {
  nvml::TemperatureV1 v{nvml::kTemperatureV1, nvml::kTemperatureGpu, 0};
  unsigned old = 0;
  if (call(nvml.nvmlDeviceGetTemperatureV, device, &v) == nvml::kSuccess) {
    sample.temperature = Celsius(v.temperature);
  } else if (call(nvml.nvmlDeviceGetTemperature, device, nvml::kTemperatureGpu, &old) == nvml::kSuccess) {
    sample.temperature = Celsius(old);
  }
}

void read_performance_state(const Functions& nvml, Device device, GpuSample& sample) {
  int state = 0;
  if (call(nvml.nvmlDeviceGetPerformanceState, device, &state) == nvml::kSuccess && state != nvml::kPStateUnknown) {
    sample.performance_state = Count(state);
  }
}

void read_throttle(const Functions& nvml, Device device, GpuSample& sample) {
  unsigned long long mask = 0;
  if (call(nvml.nvmlDeviceGetCurrentClocksEventReasons, device, &mask) == nvml::kSuccess ||
      call(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, device, &mask) == nvml::kSuccess) {
    sample.throttle_reasons = facts::throttle_reasons_from_mask(mask);
  }
}

void read_energy(const Functions& nvml, Device device, GpuSample& sample) {
  unsigned long long energy = 0;
  if (call(nvml.nvmlDeviceGetTotalEnergyConsumption, device, &energy) == nvml::kSuccess) {
    sample.energy = Millijoules(static_cast<std::int64_t>(energy));
  }
}

/// Broken memory keeps work away, so that whoever chooses has to know of it.
void read_remapped_rows(const Functions& nvml, Device device, GpuSample& sample) {
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (call(nvml.nvmlDeviceGetRemappedRows, device, &corrected, &uncorrected, &pending, &failed) != nvml::kSuccess)
    return;
  sample.remapped_rows_corrected = Count(corrected);
  sample.remapped_rows_uncorrected = Count(uncorrected);
  sample.remapped_rows_pending = Count(pending != 0 ? 1 : 0);
  sample.remapped_rows_failed = Count(failed != 0 ? 1 : 0);
}

/// What every reading tells. What NVML tells by a plain getter is a row here and nothing else.
constexpr auto kSampleRows = std::to_array<SampleRow>({
    {read_utilization},
    {read_memory},
    {read_temperature},
    {read_plain<&GpuSample::power, &Functions::nvmlDeviceGetPowerUsage>},
    {read_plain<&GpuSample::power_limit, &Functions::nvmlDeviceGetEnforcedPowerLimit>, Pace::slow},
    {read_one_of<&GpuSample::clock_graphics, &Functions::nvmlDeviceGetClockInfo, nvml::kClockGraphics>},
    {read_one_of<&GpuSample::clock_sm, &Functions::nvmlDeviceGetClockInfo, nvml::kClockSm>},
    {read_one_of<&GpuSample::clock_memory, &Functions::nvmlDeviceGetClockInfo, nvml::kClockMemory>},
    {read_one_of<&GpuSample::clock_video, &Functions::nvmlDeviceGetClockInfo, nvml::kClockVideo>},
    {read_performance_state},
    {read_throttle},
    {read_plain<&GpuSample::fan_speed, &Functions::nvmlDeviceGetFanSpeed>},
    {read_plain<&GpuSample::pcie_generation, &Functions::nvmlDeviceGetCurrPcieLinkGeneration>},
    {read_plain<&GpuSample::pcie_width, &Functions::nvmlDeviceGetCurrPcieLinkWidth>},
    {read_ecc_total<&GpuSample::ecc_corrected_volatile, nvml::kEccCorrected, nvml::kEccVolatile>, Pace::slow},
    {read_ecc_total<&GpuSample::ecc_uncorrected_volatile, nvml::kEccUncorrected, nvml::kEccVolatile>, Pace::slow},
    {read_ecc_total<&GpuSample::ecc_corrected_aggregate, nvml::kEccCorrected, nvml::kEccAggregate>, Pace::slow},
    {read_ecc_total<&GpuSample::ecc_uncorrected_aggregate, nvml::kEccUncorrected, nvml::kEccAggregate>, Pace::slow},
    {read_remapped_rows, Pace::slow},
    {read_zero_or_one<&GpuSample::retired_pages_pending, &Functions::nvmlDeviceGetRetiredPagesPendingStatus>,
     Pace::slow},
    {read_energy},
});

/// The end of "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
std::optional<std::string> profile_of(std::string_view name) {
  const std::size_t at = name.rfind("MIG ");
  if (at == std::string_view::npos) return std::nullopt;
  return std::string(trim(name.substr(at + 4)));
}

facts::MigDevice read_instance(const Functions& nvml, Device handle, std::uint32_t index) {
  facts::MigDevice mig;
  mig.index = index;
  mig.uuid = Uuid(read_text(nvml.nvmlDeviceGetUUID, handle).value_or(""));
  mig.name = read_text(nvml.nvmlDeviceGetName, handle).value_or("");
  mig.profile = profile_of(mig.name);
  unsigned id = 0;
  if (call(nvml.nvmlDeviceGetGpuInstanceId, handle, &id) == nvml::kSuccess) mig.gpu_instance = id;
  if (call(nvml.nvmlDeviceGetComputeInstanceId, handle, &id) == nvml::kSuccess) mig.compute_instance = id;
  nvml::DeviceAttributes attributes{};
  if (call(nvml.nvmlDeviceGetAttributes_v2, handle, &attributes) == nvml::kSuccess) {
    mig.multiprocessors = Count(attributes.multiprocessors);
  }
  GpuSample memory;
  read_memory(nvml, handle, memory);
  mig.memory_total = memory.memory_total;
  mig.memory_used = memory.memory_used;
  mig.memory_free = memory.memory_free;
  return mig;
}

/// A GPU that tells of memory what cannot be is not to be believed in anything; what it said is not kept.
void doubt_memory(GpuRecord& record) {
  constexpr Bytes kLeast(std::uint64_t{16} << 20U);  // the smallest GPU that NVML knows has 512 MiB, MIG slices more
  constexpr Bytes kMost(std::uint64_t{64} << 40U);
  GpuSample& sample = record.sample;
  if (!sample.memory_total || sample.memory_total->value == 0) return;
  const Bytes total = *sample.memory_total;
  const Bytes used = sample.memory_used.value_or(Bytes(0));
  const Bytes free = sample.memory_free.value_or(Bytes(0));
  if (total >= kLeast && total <= kMost && used <= total && free <= total) return;
  record.state = GpuState::faulty;
  record.cause = fmt::format("it reports impossible memory figures: {} in all, {} used, {} free", format_size(total),
                             format_size(used), format_size(free));
  record.next_step = "look into the kernel log (dmesg | grep -i nvrm); a reset or a reboot usually helps";
  sample.memory_total.reset();
  sample.memory_used.reset();
  sample.memory_free.reset();
  sample.memory_reserved.reset();
}

}  // namespace

bool note_trouble(Return code, std::string_view what, GpuRecord& record) {
  const auto set = [&](GpuState state, std::string cause, std::string next) {
    record.state = state;
    record.cause = std::move(cause);
    record.next_step = std::move(next);
    return true;
  };
  const std::uint32_t index = record.gpu.index.value;
  switch (code) {
    case nvml::kGpuIsLost:
      return set(GpuState::lost, "the GPU is lost: it fell off the PCIe bus (NVML: GPU_IS_LOST)",
                 "look for its Xid in the kernel log (dmesg | grep -i xid), then reboot the machine; if it comes back, "
                 "check power, seating and cooling");
    case nvml::kResetRequired:
      return set(GpuState::needs_reset, "the GPU needs a reset before it can be used (NVML: RESET_REQUIRED)",
                 fmt::format("end its processes, then: sudo nvidia-smi --gpu-reset -i {}", index));
    case nvml::kNoPermission:
      return set(GpuState::no_permission, fmt::format("no permission to read the GPU ({})", what),
                 fmt::format("check the permissions of /dev/nvidia{} and the device rules of your cgroup or container",
                             index));
    case nvml::kUnknown:
    case nvml::kOperatingSystem:
    case nvml::kTimeout:
    case nvml::kIrqIssue:
      return set(GpuState::not_answering,
                 fmt::format("NVML gives an unknown error instead of an answer ({}, NVML code {})", what, code),
                 "look into the kernel log (dmesg | grep -i nvrm); a reset or a reboot usually helps");
    default:
      return false;
  }
}

void read_identity(const Functions& nvml, Device device, GpuRecord& record) {
  facts::Gpu& gpu = record.gpu;
  nvml::PciInfo pci{};
  if (call(nvml.nvmlDeviceGetPciInfo_v3, device, &pci) == nvml::kSuccess ||
      call(nvml.nvmlDeviceGetPciInfo_v2, device, &pci) == nvml::kSuccess) {
    gpu.pci_bus_id = fmt::format("{:08X}:{:02X}:{:02X}.0", pci.domain, pci.bus, pci.device);
    gpu.pci_device_id = pci.pci_device_id;
  }
  gpu.uuid = Uuid(read_text(nvml.nvmlDeviceGetUUID, device).value_or(""));
  gpu.name = read_text(nvml.nvmlDeviceGetName, device).value_or("");
}

void read_inventory(const Functions& nvml, Device device, GpuRecord& record) {
  facts::Gpu& gpu = record.gpu;
  read_place(nvml, device, gpu);
  gpu.serial = read_text(nvml.nvmlDeviceGetSerial, device);
  gpu.board_part_number = read_text(nvml.nvmlDeviceGetBoardPartNumber, device);
  gpu.vbios_version = read_text(nvml.nvmlDeviceGetVbiosVersion, device);
  gpu.brand = brand_of(nvml, device);
  gpu.architecture = architecture_of(nvml, device, gpu);
  facts::ComputeCapability capability;
  if (call(nvml.nvmlDeviceGetCudaComputeCapability, device, &capability.major, &capability.minor) == nvml::kSuccess) {
    gpu.compute_capability = capability;
  }
  read_limits(nvml, device, gpu);
  read_cores(nvml, device, gpu);
  int mode = 0;
  int pending = 0;
  if (call(nvml.nvmlDeviceGetEccMode, device, &mode, &pending) == nvml::kSuccess) gpu.ecc_enabled = mode != 0;
  gpu.minor_number = read_number<Count>(nvml.nvmlDeviceGetMinorNumber, device);
}

void read_settings(const Functions& nvml, Device device, facts::Gpu& gpu) {
  int mode = 0;
  gpu.compute_mode.reset();
  if (call(nvml.nvmlDeviceGetComputeMode, device, &mode) == nvml::kSuccess && mode >= 0 && mode <= 3) {
    gpu.compute_mode = static_cast<facts::ComputeMode>(mode);
  }
  gpu.persistence = read_flag(nvml.nvmlDeviceGetPersistenceMode, device);
}

void read_basic_rows(const Functions& nvml, Device device, RowSet set, GpuSample& sample) {
  read_rows(kSampleRows, set, nvml, device, sample);
}

void read_memory_alone(const Functions& nvml, Device device, GpuRecord& record) {
  const nvml::Return code = read_memory_figures(nvml, device, record.sample);
  doubt_memory(record);
  facts::drop_impossible(record.sample);
  note_trouble(code, "nvmlDeviceGetMemoryInfo", record);
}

void read_sample(const Functions& nvml, Device device, GpuRecord& record, RowSet set) {
  read_basic_rows(nvml, device, set, record.sample);
  doubt_memory(record);
  facts::drop_impossible(record.sample);
  // A GPU that was lost or broke since its handle was given says so in any call; one that always works tells.
  unsigned index = 0;
  if (note_trouble(call(nvml.nvmlDeviceGetIndex, device, &index), "nvmlDeviceGetIndex", record)) return;
  // Its row has asked the same.
  if (record.sample.performance_state) return;
  int state = 0;
  note_trouble(call(nvml.nvmlDeviceGetPerformanceState, device, &state), "nvmlDeviceGetPerformanceState", record);
}

void read_mig(const Functions& nvml, Device device, GpuRecord& record) {
  unsigned current = 0;
  unsigned pending = 0;
  record.mig_devices.clear();
  if (call(nvml.nvmlDeviceGetMigMode, device, &current, &pending) != nvml::kSuccess) return;
  record.gpu.mig_enabled = current != 0;
  record.gpu.mig_pending = pending != 0;
  unsigned most = 0;
  if (current == 0 || call(nvml.nvmlDeviceGetMaxMigDeviceCount, device, &most) != nvml::kSuccess) return;
  for (unsigned i = 0; i < std::min(most, 64U); ++i) {
    Device handle = nullptr;
    if (call(nvml.nvmlDeviceGetMigDeviceHandleByIndex, device, i, &handle) != nvml::kSuccess) continue;
    record.mig_devices.push_back(read_instance(nvml, handle, i));
  }
}

}  // namespace gpuwarden::probe
