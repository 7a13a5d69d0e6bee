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

std::optional<PciGpu> read_device(const fs::path& folder) {
  constexpr std::uint32_t kNvidia = 0x10DE;
  constexpr std::uint32_t kDisplayClass = 0x03;
  const auto bus_id = nvml_bus_id(folder.filename().string());
  if (!bus_id || read_hexadecimal(folder / "vendor") != kNvidia) return std::nullopt;
  if (read_hexadecimal(folder / "class") >> 16U != kDisplayClass) return std::nullopt;
  PciGpu gpu;
  gpu.bus_id = *bus_id;
  gpu.device = static_cast<std::uint16_t>(read_hexadecimal(folder / "device"));
  const auto vendor = static_cast<std::uint16_t>(read_hexadecimal(folder / "subsystem_vendor"));
  const auto subsystem = static_cast<std::uint16_t>(read_hexadecimal(folder / "subsystem_device"));
  const auto name = knowledge::pci_device_name(gpu.device, vendor, subsystem);
  gpu.name = name ? std::string(*name) : fmt::format("NVIDIA device {:04x}", gpu.device);
  const auto power_state = read_line(folder / "power_state");
  gpu.suspended =
      read_line(folder / "power/runtime_status") == "suspended" || power_state == "D3cold" || power_state == "D3hot";
  const auto node = parse_integer(read_line(folder / "numa_node").value_or(""));
  if (node && *node >= 0) gpu.numa_node = static_cast<int>(*node);
  gpu.cpu_list = read_line(folder / "local_cpulist");
  return gpu;
}

}  // namespace

std::vector<PciGpu> scan_pci(const fs::path& sys_root) {
  std::vector<PciGpu> gpus;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(sys_root / "bus/pci/devices", ignored)) {
    if (auto gpu = read_device(entry.path())) gpus.push_back(std::move(*gpu));
  }
  std::ranges::sort(gpus, {}, &PciGpu::bus_id);
  return gpus;
}

facts::GpuRecord record_of(const PciGpu& gpu, GpuIndex index, facts::GpuState state, std::string cause,
                           std::string next_step) {
  facts::GpuRecord record;
  record.gpu.index = index;
  record.gpu.name = gpu.name;
  record.gpu.pci_bus_id = gpu.bus_id;
  record.gpu.pci_device_id = static_cast<std::uint32_t>(gpu.device) << 16U | 0x10DEU;
  record.gpu.numa_node = gpu.numa_node;
  record.gpu.cpu_affinity = gpu.cpu_list;
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
