// SPDX-License-Identifier: Apache-2.0
#include "probe/other_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;
using facts::GpuRecord;
using facts::GpuState;

constexpr std::uint16_t kVendorAmd = 0x1002;

/// A number from a file, times `numerator` over `denominator`; nothing where the file is missing or says something
/// else.
template <class Quantity>
void put(std::optional<Quantity>& target, const fs::path& file, std::int64_t numerator = 1,
         std::int64_t denominator = 1) {
  const auto line = read_line(file);
  const auto number = line ? parse_integer(*line) : std::nullopt;
  if (!number || *number < 0 || *number > INT64_MAX / numerator) return;
  target = Quantity(static_cast<typename Quantity::rep>(*number * numerator / denominator));
}

/// The first of several files that there is.
fs::path first_of(const fs::path& folder, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names) {
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  return folder / *names.begin();
}

std::optional<std::string> text_in(const fs::path& file) {
  const auto line = read_line(file);
  return line && !line->empty() ? std::optional(printable(*line)) : std::nullopt;
}

/// The folder of the only entry with this beginning ("hwmon" -> hwmon/hwmon3).
std::optional<fs::path> numbered(const fs::path& folder, std::string_view beginning) {
  for (const fs::path& entry : list_directory(folder)) {
    const std::string name = entry.filename();
    if (name.starts_with(beginning) && parse_integer(std::string_view(name).substr(beginning.size()))) return entry;
  }
  return std::nullopt;
}

/// "16.0 GT/s PCIe" -> 4.
std::optional<Count> generation_of(const std::optional<std::string>& speed) {
  static constexpr std::array<std::pair<std::string_view, int>, 6> kSpeeds{
      {{"2.5", 1}, {"5.0", 2}, {"8.0", 3}, {"16.0", 4}, {"32.0", 5}, {"64.0", 6}}};
  if (!speed) return std::nullopt;
  for (const auto& [text, generation] : kSpeeds) {
    if (speed->starts_with(text)) return Count(generation);
  }
  return std::nullopt;
}

void read_pcie(const fs::path& folder, GpuRecord& record) {
  record.sample.pcie_generation = generation_of(text_in(folder / "current_link_speed"));
  record.gpu.pcie_generation_max = generation_of(text_in(folder / "max_link_speed"));
  put(record.sample.pcie_width, folder / "current_link_width");
  put(record.gpu.pcie_width_max, folder / "max_link_width");
}

/// hwmon's units: millidegrees, microwatts, microjoules, hertz.
void read_hwmon(const fs::path& folder, GpuRecord& record) {
  const auto hwmon = numbered(folder / "hwmon", "hwmon");
  if (!hwmon) return;
  auto& sample = record.sample;
  put(sample.temperature, first_of(*hwmon, {"temp1_input", "temp2_input"}), 1, 1000);
  put(sample.power, first_of(*hwmon, {"power1_average", "power1_input"}), 1, 1000);
  put(sample.power_limit, first_of(*hwmon, {"power1_cap", "power1_max"}), 1, 1000);
  put(record.gpu.power_limit_max, *hwmon / "power1_cap_max", 1, 1000);
  put(record.gpu.power_limit_default, *hwmon / "power1_cap_default", 1, 1000);
  put(sample.energy, *hwmon / "energy1_input", 1, 1000);
  put(sample.clock_graphics, *hwmon / "freq1_input", 1, 1'000'000);
  put(sample.clock_memory, *hwmon / "freq2_input", 1, 1'000'000);
  facts::Fan fan;
  put(fan.rpm, *hwmon / "fan1_input");
  if (fan.rpm) sample.fans = {fan};
  // AMD's second sensor is the hottest point, its third the memory.
  if (read_line(*hwmon / "temp3_label") == "mem") put(sample.temperature_memory, *hwmon / "temp3_input", 1, 1000);
}

void read_amd(const fs::path& folder, GpuRecord& record) {
  auto& sample = record.sample;
  put(sample.memory_total, folder / "mem_info_vram_total");
  put(sample.memory_used, folder / "mem_info_vram_used");
  put(sample.utilization_gpu, folder / "gpu_busy_percent");
  put(sample.utilization_memory, folder / "mem_busy_percent");
  if (const auto name = text_in(folder / "product_name")) record.gpu.name = *name;
  record.gpu.serial = text_in(folder / "serial_number");
  record.gpu.vbios_version = text_in(folder / "vbios_version");
  record.gpu.uuid = Uuid(text_in(folder / "unique_id").value_or(""));
}

/// i915 has its clocks beside the card, xe below its tiles.
void read_intel(const fs::path& folder, GpuRecord& record) {
  auto& sample = record.sample;
  const auto card = numbered(folder / "drm", "card").value_or(folder / "drm/card0");
  put(sample.memory_total, first_of(folder, {"tile0/physical_vram_size_bytes", "lmem_total_bytes"}));
  if (!sample.memory_total) put(sample.memory_total, card / "lmem_total_bytes");
  put(sample.clock_graphics, first_of(card, {"gt_act_freq_mhz", "gt_cur_freq_mhz"}));
  put(record.gpu.clock_graphics_max, first_of(card, {"gt_RP0_freq_mhz", "gt_max_freq_mhz"}));
  if (!sample.clock_graphics) put(sample.clock_graphics, folder / "tile0/gt0/freq0/act_freq");
  if (!record.gpu.clock_graphics_max) put(record.gpu.clock_graphics_max, folder / "tile0/gt0/freq0/rp0_freq");
}

std::string name_of(const PciGpu& gpu, const ReaderOptions& options) {
  const std::string_view vendor = gpu.vendor == kVendorAmd ? "AMD" : "Intel";
  for (const fs::path& file : options.pci_ids) {
    const auto list = read_file(file);
    if (!list) continue;
    if (const auto name = name_in_pci_ids(*list, gpu.vendor, gpu.device)) return fmt::format("{} {}", vendor, *name);
  }
  return fmt::format("{} GPU {:04x}", vendor, gpu.device);
}

void read_state(const PciGpu& gpu, const ReaderOptions& options, GpuRecord& record) {
  static constexpr std::array<std::string_view, 4> kDrivers{"amdgpu", "radeon", "i915", "xe"};
  if (!gpu.driver) {
    record.state = GpuState::disabled;
    record.cause = "no driver loaded";
  } else if (std::ranges::find(kDrivers, *gpu.driver) == kDrivers.end()) {
    record.state = GpuState::disabled;
    record.cause = fmt::format("the kernel driver {} has it", *gpu.driver);
  } else if (gpu.suspended && !options.wake) {
    record.state = GpuState::suspended;
    record.cause = "the GPU sleeps (runtime power management)";
    record.next_step = "reading it would wake it: use --wake";
  }
}

GpuRecord read_gpu(const PciGpu& gpu, GpuIndex index, const ReaderOptions& options) {
  GpuRecord record = record_of(gpu, index, GpuState::available, "", "");
  record.gpu.vendor = gpu.vendor == kVendorAmd ? "AMD" : "Intel";
  read_state(gpu, options, record);
  const bool readable = record.state == GpuState::available;
  if (readable && gpu.vendor == kVendorAmd) read_amd(gpu.folder, record);
  if (readable && gpu.vendor != kVendorAmd) read_intel(gpu.folder, record);
  if (readable) read_pcie(gpu.folder, record);
  if (readable) read_hwmon(gpu.folder, record);
  if (record.gpu.name.empty()) record.gpu.name = name_of(gpu, options);
  if (!record.gpu.name.starts_with(record.gpu.vendor)) record.gpu.name = record.gpu.vendor + " " + record.gpu.name;
  auto& sample = record.sample;
  if (sample.memory_total && sample.memory_used && *sample.memory_used <= *sample.memory_total)
    sample.memory_free = *sample.memory_total - *sample.memory_used;
  return record;
}

}  // namespace

std::optional<std::string> name_in_pci_ids(std::string_view list, std::uint16_t vendor, std::uint16_t device) {
  // A vendor's line has no tab before it, a device's one, a subsystem's two.
  const std::string vendor_line = fmt::format("\n{:04x}  ", vendor);
  const std::size_t begin = list.find(vendor_line);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string device_line = fmt::format("\t{:04x}  ", device);
  std::size_t at = list.find('\n', begin + 1);
  while (at != std::string_view::npos && at + 1 < list.size()) {
    const std::size_t end = list.find('\n', at + 1);
    const std::string_view line = list.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    if (!line.starts_with('\t') && !line.starts_with('#')) return std::nullopt;
    if (line.starts_with(device_line)) {
      const std::string_view name = trim(line.substr(device_line.size()));
      const std::size_t open = name.find('[');
      const std::size_t close = name.rfind(']');
      const bool marketed = open != std::string_view::npos && close != std::string_view::npos && open < close;
      return printable(marketed ? name.substr(open + 1, close - open - 1) : name);
    }
    at = end;
  }
  return std::nullopt;
}

std::vector<GpuRecord> read_other_gpus(const ReaderOptions& options, GpuIndex first) {
  std::vector<GpuRecord> records;
  for (const PciGpu& gpu : scan_other_pci(options.sys_root)) {
    const GpuIndex index{first.value + static_cast<std::uint32_t>(records.size())};
    records.push_back(read_gpu(gpu, index, options));
  }
  return records;
}

}  // namespace gpuwarden::probe
