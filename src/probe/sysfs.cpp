// SPDX-License-Identifier: Apache-2.0
#include "probe/sysfs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint32_t> hexadecimal(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint32_t read_hexadecimal(const fs::path& path) { return hexadecimal(read_line(path).value_or("")).value_or(0); }

/// "0000:17:00.0" -> "00000000:17:00.0".
std::optional<std::string> nvml_bus_id(std::string_view name) {
  const auto parts = split(name, ':');
  if (parts.size() != 3) return std::nullopt;
  const auto tail = split(parts[2], '.');
  const auto domain = hexadecimal(parts[0]);
  const auto bus = hexadecimal(parts[1]);
  const auto device = hexadecimal(tail[0]);
  if (!domain || !bus || !device || tail.size() != 2 || tail[1] != "0") return std::nullopt;
  return fmt::format("{:08X}:{:02X}:{:02X}.0", *domain, *bus, *device);
}

constexpr std::uint16_t kVendorAmd = 0x1002;
constexpr std::uint16_t kVendorIntel = 0x8086;

/// Display controllers, and what AMD's Instinct cards without a display call themselves: processing accelerators.
bool is_gpu_class(std::uint32_t pci_class, std::uint16_t vendor) {
  constexpr std::uint32_t kDisplay = 0x03;
  constexpr std::uint32_t kAccelerator = 0x12;
  return pci_class >> 16U == kDisplay || (pci_class >> 16U == kAccelerator && vendor == kVendorAmd);
}

/// The last part of where a link points to.
std::optional<std::string> link_name(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? std::nullopt : std::optional(target.filename().string());
}

std::string nvidia_name(const fs::path& folder, std::uint16_t device) {
  const auto vendor = static_cast<std::uint16_t>(read_hexadecimal(folder / "subsystem_vendor"));
  const auto subsystem = static_cast<std::uint16_t>(read_hexadecimal(folder / "subsystem_device"));
  const auto name = knowledge::pci_device_name(device, vendor, subsystem);
  return name ? std::string(*name) : fmt::format("NVIDIA device {:04x}", device);
}

/// Whose GPUs are wanted: those of others are left after one file.
using WantsVendor = bool (*)(std::uint16_t vendor);

/// `name`: the device's address, as its folder is usually called.
std::optional<PciGpu> read_device(const fs::path& folder, std::string_view name, WantsVendor wants) {
  const auto bus_id = nvml_bus_id(name);
  if (!bus_id) return std::nullopt;
  PciGpu gpu;
  gpu.vendor = static_cast<std::uint16_t>(read_hexadecimal(folder / "vendor"));
  if (!wants(gpu.vendor)) return std::nullopt;
  if (!is_gpu_class(read_hexadecimal(folder / "class"), gpu.vendor)) return std::nullopt;
  gpu.bus_id = *bus_id;
  gpu.folder = folder;
  const auto power_state = read_line(folder / "power_state");
  gpu.suspended =
      read_line(folder / "power/runtime_status") == "suspended" || power_state == "D3cold" || power_state == "D3hot";
  gpu.driver = link_name(folder / "driver");
  return gpu;
}

void describe_one(PciGpu& gpu) {
  gpu.device = static_cast<std::uint16_t>(read_hexadecimal(gpu.folder / "device"));
  if (gpu.vendor == kVendorNvidia) gpu.name = nvidia_name(gpu.folder, gpu.device);
  const auto node = parse_integer(read_line(gpu.folder / "numa_node").value_or(""));
  if (node && *node >= 0) gpu.numa_node = static_cast<int>(*node);
  gpu.cpu_list = read_line(gpu.folder / "local_cpulist");
}

void add_if_new(std::optional<PciGpu> gpu, std::vector<PciGpu>& gpus) {
  if (gpu && std::ranges::find(gpus, gpu->bus_id, &PciGpu::bus_id) == gpus.end()) gpus.push_back(std::move(*gpu));
}

/// Some sandboxes hide the PCI tree, but not the display cards in it.
std::vector<PciGpu> scan_all(const fs::path& sys_root, WantsVendor wants) {
  std::vector<PciGpu> gpus;
  for (const fs::path& folder : list_directory(sys_root / "bus/pci/devices"))
    add_if_new(read_device(folder, folder.filename().native(), wants), gpus);
  for (const fs::path& card : list_directory(sys_root / "class/drm")) {
    const std::string name = card.filename();
    if (!name.starts_with("card") || name.contains('-')) continue;  // "card0-DP-1" is a connector
    const auto address = link_name(card / "device");
    if (address) add_if_new(read_device(card / "device", *address, wants), gpus);
  }
  std::ranges::sort(gpus, {}, &PciGpu::bus_id);
  return gpus;
}

/// The value behind "KEY:" in the driver's information about a GPU; nothing for what it does not know ("Unknown",
/// "GPU-????????-...").
std::optional<std::string> information(std::string_view text, std::string_view key) {
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with(key) || line.substr(key.size(), 1) != ":") continue;
    std::string value = printable(trim(line.substr(key.size() + 1)));
    if (value.empty() || value == "Unknown" || value.contains('?')) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

void take_information(std::string_view text, PciGpu& gpu) {
  if (auto model = information(text, "Model")) gpu.name = std::move(*model);
  gpu.uuid = information(text, "GPU UUID");
  const auto minor = parse_integer(information(text, "Device Minor").value_or(""));
  if (minor && *minor >= 0) gpu.minor = static_cast<std::uint32_t>(*minor);
}

}  // namespace

std::vector<PciGpu> find_pci(const fs::path& sys_root) {
  return scan_all(sys_root, [](std::uint16_t vendor) { return vendor == kVendorNvidia; });
}

void describe(std::vector<PciGpu>& gpus) { std::ranges::for_each(gpus, describe_one); }

std::vector<PciGpu> scan_pci(const fs::path& sys_root) {
  auto gpus = find_pci(sys_root);
  describe(gpus);
  return gpus;
}

std::vector<PciGpu> scan_other_pci(const fs::path& sys_root) {
  auto gpus = scan_all(sys_root, [](std::uint16_t vendor) { return vendor == kVendorAmd || vendor == kVendorIntel; });
  describe(gpus);
  return gpus;
}

void complete_from_driver(const fs::path& proc_root, std::vector<PciGpu>& gpus) {
  for (const fs::path& folder : list_directory(proc_root / "driver/nvidia/gpus")) {
    const auto text = read_file(folder / "information");
    if (!text) continue;
    const std::string address = information(*text, "Bus Location").value_or(folder.filename().string());
    const auto bus_id = nvml_bus_id(address);
    if (!bus_id) continue;
    auto found = std::ranges::find(gpus, *bus_id, &PciGpu::bus_id);
    if (found == gpus.end()) {
      PciGpu added;
      added.bus_id = *bus_id;
      added.name = "NVIDIA GPU";
      added.driver = "nvidia";
      found = gpus.insert(gpus.end(), std::move(added));
    }
    take_information(*text, *found);
  }
  std::ranges::sort(gpus, {}, &PciGpu::bus_id);
}

facts::GpuRecord record_of(const PciGpu& gpu, GpuIndex index, facts::GpuState state, std::string cause,
                           std::string next_step) {
  facts::GpuRecord record;
  record.gpu.index = index;
  record.gpu.name = gpu.name;
  record.gpu.pci_bus_id = gpu.bus_id;
  if (gpu.device != 0) record.gpu.pci_device_id = static_cast<std::uint32_t>(gpu.device) << 16U | gpu.vendor;
  record.gpu.numa_node = gpu.numa_node;
  record.gpu.cpu_affinity = gpu.cpu_list;
  if (gpu.uuid) record.gpu.uuid = Uuid(*gpu.uuid);
  if (gpu.minor) record.gpu.minor_number = Count(*gpu.minor);
  record.state = state;
  record.cause = std::move(cause);
  record.next_step = std::move(next_step);
  return record;
}

std::optional<std::string> kernel_module_version(const fs::path& proc_root) {
  const auto line = read_line(proc_root / "driver/nvidia/version");
  if (!line) return std::nullopt;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."; the open module says "Open Kernel Module
  // for".
  for (const auto word : split_words(*line)) {
    const auto parts = split(word, '.');
    const bool numbers =
        std::ranges::all_of(parts, [](std::string_view part) { return parse_integer(part).has_value(); });
    if (parts.size() >= 2 && numbers) return std::string(word);
  }
  return std::nullopt;
}

}  // namespace gpuwarden::probe
