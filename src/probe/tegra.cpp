// SPDX-License-Identifier: Apache-2.0
#include "probe/tegra.hpp"

#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;

/// A property of the device tree's root: strings that end in a NUL each.
std::string property(const ReaderOptions& options, const char* name) {
  for (const fs::path& tree : {options.sys_root / "firmware/devicetree/base", options.sys_root / "firmware/devicetree",
                               options.driver_proc_root / "device-tree"}) {
    auto text = read_file(tree / name);
    if (text && !text->empty()) return *std::move(text);
  }
  return {};
}

struct Chip {
  std::string_view compatible;
  std::string_view architecture;
  facts::ComputeCapability capability;
};

/// Source: NVIDIA's CUDA GPU compute capability list (developer.nvidia.com/cuda-gpus, Jetson).
constexpr std::array<Chip, 5> kChips{{{"nvidia,tegra264", "Blackwell", {11, 0}},
                                      {"nvidia,tegra234", "Ampere", {8, 7}},
                                      {"nvidia,tegra194", "Volta", {7, 2}},
                                      {"nvidia,tegra186", "Pascal", {6, 2}},
                                      {"nvidia,tegra210", "Maxwell", {5, 3}}}};

/// nvgpu's folder; its load is in thousandths.
std::optional<fs::path> gpu_folder(const fs::path& sys_root) {
  std::error_code ignored;
  for (const char* name : {"devices/gpu.0", "devices/platform/gpu.0", "devices/platform/bus@0/17000000.gpu",
                           "devices/platform/17000000.gpu", "devices/platform/17000000.ga10b",
                           "devices/platform/17000000.gv11b", "devices/platform/57000000.gpu"}) {
    if (fs::is_directory(sys_root / name, ignored)) return sys_root / name;
  }
  return std::nullopt;
}

void read_temperature(const fs::path& sys_root, facts::GpuSample& sample) {
  for (const fs::path& zone : list_directory(sys_root / "class/thermal")) {
    const auto type = read_line(zone / "type");
    if (!type || !to_lower(*type).starts_with("gpu")) continue;
    const auto millidegrees = parse_integer(read_line(zone / "temp").value_or(""));
    if (millidegrees && *millidegrees > 0) sample.temperature = Celsius(*millidegrees / 1000);
    return;
  }
}

/// The GPU works in the machine's own memory; what of it is in use is not in use by the GPU.
void read_memory(const fs::path& proc_root, facts::GpuSample& sample) {
  const auto text = read_file(proc_root / "meminfo");
  if (!text) return;
  for (const auto line : split(*text, '\n')) {
    const auto words = split_words(line);
    const auto kib = words.size() == 3 && words[2] == "kB" ? parse_integer(words[1]) : std::nullopt;
    if (!kib || *kib < 0) continue;
    if (words[0] == "MemTotal:") sample.memory_total = Bytes(static_cast<std::uint64_t>(*kib) << 10U);
    if (words[0] == "MemAvailable:") sample.memory_free = Bytes(static_cast<std::uint64_t>(*kib) << 10U);
  }
}

void read_chip(const std::string& compatible, facts::Gpu& gpu) {
  for (const Chip& chip : kChips) {
    if (!compatible.contains(chip.compatible)) continue;
    gpu.architecture = std::string(chip.architecture);
    gpu.compute_capability = chip.capability;
    return;
  }
}

}  // namespace

std::optional<facts::GpuRecord> read_tegra(const ReaderOptions& options) {
  const std::string model = property(options, "model");
  const std::string compatible = property(options, "compatible");
  const std::string name = printable(trim(std::string_view(model).substr(0, model.find('\0'))));
  const bool jetson = name.contains("Jetson") || compatible.contains("nvidia,tegra");
  if (!jetson) return std::nullopt;
  facts::GpuRecord record;
  record.gpu.name = name.empty() ? "NVIDIA Tegra" : name;
  read_chip(compatible, record.gpu);
  const auto folder = gpu_folder(options.sys_root);
  if (!folder) {
    record.state = facts::GpuState::disabled;
    record.cause = "the GPU of this system on a chip is not in use: its kernel driver (nvgpu) is not loaded";
    record.next_step = "sudo modprobe nvgpu; if that fails, look into dmesg, or flash JetPack again";
    return record;
  }
  record.cause = "integrated GPU: it shares its memory with the CPU, and NVML does not report it (tegrastats does)";
  const auto load = parse_integer(read_line(*folder / "load").value_or(""));
  if (load && *load >= 0 && *load <= 1000) record.sample.utilization_gpu = Percent((*load + 5) / 10);
  read_temperature(options.sys_root, record.sample);
  read_memory(options.driver_proc_root, record.sample);
  return record;
}

}  // namespace gpuwarden::probe
