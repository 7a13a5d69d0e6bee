// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_models.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "knowledge/names.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr GpuModel kModels[] = {
#include "knowledge/models.inc"
};

struct PciDevice {
  std::uint16_t device;
  std::uint16_t subsystem_vendor;
  std::uint16_t subsystem_device;
  std::string_view name;
};

/// Sorted by device, subsystem vendor, subsystem device; the generator checks it.
constexpr PciDevice kPciDevices[] = {
#include "knowledge/pci.inc"
};

std::optional<std::string_view> exact_pci_name(std::uint16_t device, std::uint16_t vendor, std::uint16_t subsystem) {
  const auto key = std::tuple(device, vendor, subsystem);
  const auto key_of = [](const PciDevice& row) {
    return std::tuple(row.device, row.subsystem_vendor, row.subsystem_device);
  };
  const auto* const found = std::ranges::lower_bound(kPciDevices, key, {}, key_of);
  if (found == std::end(kPciDevices) || key_of(*found) != key) return std::nullopt;
  return found->name;
}

}  // namespace

std::span<const GpuModel> gpu_models() { return kModels; }

const GpuModel* find_gpu_model(std::string_view nvml_name) {
  const std::string_view wanted = without_maker(nvml_name);
  const auto* const found =
      std::ranges::find(kModels, wanted, [](const GpuModel& model) { return without_maker(model.name); });
  return found == std::end(kModels) ? nullptr : found;
}

std::optional<int> cuda_cores_per_multiprocessor(int capability_major, int capability_minor) {
  switch (capability_major) {
    case 3:
      return 192;
    case 5:
      return 128;
    case 6:
      return capability_minor == 0 ? 64 : 128;
    case 7:
      return 64;
    case 8:
      return capability_minor == 0 ? 64 : 128;
    case 9:
    case 10:
    case 11:
    case 12:
      return 128;
    default:
      return std::nullopt;
  }
}

std::optional<std::string_view> pci_device_name(std::uint16_t device, std::uint16_t subsystem_vendor,
                                                std::uint16_t subsystem_device) {
  if (const auto exact = exact_pci_name(device, subsystem_vendor, subsystem_device)) return exact;
  if (const auto general = exact_pci_name(device, 0, 0)) return general;
  // Some ids are only listed with subsystems; boards that share one id mostly share the chip and the name.
  const auto* const first = std::ranges::lower_bound(kPciDevices, device, {}, &PciDevice::device);
  if (first != std::end(kPciDevices) && first->device == device) return first->name;
  return std::nullopt;
}

int mig_slice_multiprocessors(int capability_major) {
  return capability_major >= 10 ? 18 : capability_major == 9 ? 16 : 14;
}

}  // namespace gpuwarden::knowledge
