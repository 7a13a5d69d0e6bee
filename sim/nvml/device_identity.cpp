// SPDX-License-Identifier: Apache-2.0
// Names, numbers and places of a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "sim/core/identity.hpp"
#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;

/// Gives a text of the GPU's specification; an empty one is not supported.
template <class Get>
Return text(Device device, char* buffer, unsigned length, Get get) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  const std::string value = get(target);
  return value.empty() ? kNotSupported : copy_text(value, buffer, length);
}

unsigned architecture_number(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, unsigned>, 8> kNumbers{{{"Maxwell", kArchMaxwell},
                                                                                  {"Pascal", kArchPascal},
                                                                                  {"Volta", kArchVolta},
                                                                                  {"Turing", kArchTuring},
                                                                                  {"Ampere", kArchAmpere},
                                                                                  {"Ada", kArchAda},
                                                                                  {"Hopper", kArchHopper},
                                                                                  {"Blackwell", kArchBlackwell}}};
  for (const auto& [known, value] : kNumbers) {
    if (name.starts_with(known)) return value;
  }
  return kArchUnknown;
}

Return pci_info(Device device, PciInfo* info) {
  if (info == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  const auto bus = sim::parse_bus_id(target.gpu->spec->bus_id).value_or(sim::BusId{});
  std::memset(info, 0, sizeof *info);
  const auto legacy = fmt::format("{:04X}:{:02X}:{:02X}.{:X}", bus.domain & 0xFFFFU, bus.bus, bus.device, bus.function);
  const auto full = fmt::format("{:08X}:{:02X}:{:02X}.{:X}", bus.domain, bus.bus, bus.device, bus.function);
  std::memcpy(info->bus_id_legacy, legacy.data(), std::min(legacy.size(), sizeof info->bus_id_legacy - 1));
  std::memcpy(info->bus_id, full.data(), std::min(full.size(), sizeof info->bus_id - 1));
  info->domain = bus.domain;
  info->bus = bus.bus;
  info->device = bus.device;
  info->pci_device_id = target.gpu->spec->model.pci_device_id;
  info->pci_subsystem_id = 0x16C110DE;
  return kSuccess;
}

/// Sets the bits of a CPU or node list ("0-31,64") in an array of words.
Return fill_mask(std::string_view list, unsigned words, unsigned long* mask) {
  if (mask == nullptr || words == 0) return kInvalidArgument;
  std::fill(mask, mask + words, 0UL);
  for (const auto part : split(list, ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_integer(ends.front()).value_or(-1);
    const auto last = parse_integer(ends.back()).value_or(-1);
    for (auto bit = first; bit >= 0 && bit <= last && bit < static_cast<std::int64_t>(words) * 64; ++bit) {
      mask[bit / 64] |= 1UL << (bit % 64);
    }
  }
  return kSuccess;
}

}  // namespace

extern "C" {

Return nvmlDeviceGetName(Device device, char* buffer, unsigned length) {
  return text(device, buffer, length, [](const Target& t) {
    return t.instance == nullptr ? t.gpu->spec->name : fmt::format("{} MIG {}", t.gpu->spec->name, t.instance->profile);
  });
}
Return nvmlDeviceGetUUID(Device device, char* buffer, unsigned length) {
  return text(device, buffer, length,
              [](const Target& t) { return t.instance ? t.instance->uuid : t.gpu->spec->uuid; });
}
Return nvmlDeviceGetSerial(Device device, char* buffer, unsigned length) {
  return text(device, buffer, length, [](const Target& t) { return t.gpu->spec->serial; });
}
Return nvmlDeviceGetBoardPartNumber(Device device, char* buffer, unsigned length) {
  return text(device, buffer, length, [](const Target& t) { return t.gpu->spec->board_part_number; });
}
Return nvmlDeviceGetVbiosVersion(Device device, char* buffer, unsigned length) {
  return text(device, buffer, length, [](const Target& t) { return t.gpu->spec->vbios; });
}

Return nvmlDeviceGetBrand(Device device, int* brand) {
  Target target;
  if (brand == nullptr) return kInvalidArgument;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  static constexpr std::array<std::pair<std::string_view, int>, 4> kBrands{
      {{"Tesla", kBrandTesla}, {"GeForce", kBrandGeForce}, {"Quadro", kBrandQuadro}, {"NVIDIA", kBrandNvidia}}};
  const auto* const found =
      std::ranges::find(kBrands, target.gpu->spec->model.brand, &std::pair<std::string_view, int>::first);
  *brand = found == kBrands.end() ? kBrandUnknown : found->second;
  return kSuccess;
}

Return nvmlDeviceGetIndex(Device device, unsigned* index) {
  Target target;
  if (index == nullptr) return kInvalidArgument;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  *index = target.handle.gpu;
  if (target.instance != nullptr) *index = static_cast<unsigned>(target.instance - target.gpu->instances.data());
  return kSuccess;
}

Return nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  return number(device, sim::Field::minor_number, minor);
}

Return nvmlDeviceGetBoardId(Device device, unsigned* board) {
  PciInfo info{};
  if (board == nullptr) return kInvalidArgument;
  if (const Return code = pci_info(device, &info); code != kSuccess) return code;
  *board = info.bus << 8U | info.device;
  return kSuccess;
}

Return nvmlDeviceGetPciInfo(Device device, PciInfo* info) { return pci_info(device, info); }
Return nvmlDeviceGetPciInfo_v2(Device device, PciInfo* info) { return pci_info(device, info); }
Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) { return pci_info(device, info); }

Return nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  Target target;
  if (major == nullptr || minor == nullptr) return kInvalidArgument;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  *major = target.gpu->spec->model.capability_major;
  *minor = target.gpu->spec->model.capability_minor;
  return kSuccess;
}

Return nvmlDeviceGetArchitecture(Device device, unsigned* architecture) {
  Target target;
  if (architecture == nullptr) return kInvalidArgument;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  *architecture = architecture_number(target.gpu->spec->model.architecture);
  return kSuccess;
}

Return nvmlDeviceGetNumGpuCores(Device device, unsigned* cores) {
  return number(device, sim::Field::cuda_cores, cores);
}
Return nvmlDeviceGetMemoryBusWidth(Device device, unsigned* width) {
  return number(device, sim::Field::bus_width, width);
}
Return nvmlDeviceGetPersistenceMode(Device device, int* mode) { return number(device, sim::Field::persistence, mode); }
Return nvmlDeviceGetComputeMode(Device device, int* mode) { return number(device, sim::Field::compute_mode, mode); }
Return nvmlDeviceGetDisplayMode(Device device, int* mode) { return number(device, sim::Field::display_mode, mode); }
Return nvmlDeviceGetDisplayActive(Device device, int* mode) { return number(device, sim::Field::display_active, mode); }

// A Windows notion; the real Linux library answers the same.
Return nvmlDeviceGetDriverModel_v2(Device device, int*, int*) {
  Target target;
  const Return code = resolve(device, target);
  return code == kSuccess ? kNotSupported : code;
}

Return nvmlDeviceGetCpuAffinity(Device device, unsigned words, unsigned long* mask) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  return fill_mask(target.gpu->spec->cpu_list, words, mask);
}

Return nvmlDeviceGetCpuAffinityWithinScope(Device device, unsigned words, unsigned long* mask, unsigned scope) {
  return scope > kAffinityScopeSocket ? kInvalidArgument : nvmlDeviceGetCpuAffinity(device, words, mask);
}

Return nvmlDeviceGetMemoryAffinity(Device device, unsigned words, unsigned long* mask, unsigned) {
  unsigned node = 0;
  if (const Return code = number(device, sim::Field::numa_node, &node); code != kSuccess) return code;
  return fill_mask(std::to_string(node), words, mask);
}

Return nvmlDeviceGetNumaNodeId(Device device, unsigned* node) { return number(device, sim::Field::numa_node, node); }

}  // extern "C"
}  // namespace gpuwarden::nvml
