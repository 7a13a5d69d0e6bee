// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/fleet_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::machine {
namespace {

/// The simulator's name of a reading, and the metric it comes from, with what to divide the metric's value by.
struct Pinned {
  const char* reading;
  const char* metric;
  double divisor = 1;
  double low = 0;
  double high = 1e12;
};

constexpr double kMiB = 1 << 20;
constexpr Pinned kPinned[] = {{"utilization", "utilization", 1, 0, 100},
                              {"memory_utilization", "memory_utilization", 1, 0, 100},
                              {"memory_total", "memory_total", kMiB},
                              {"memory_used", "memory_used", kMiB},
                              {"temperature", "temperature", 1, 0, 150},
                              {"power", "power", 1, 0, 10000},
                              {"power_limit", "power_limit", 1, 0, 10000},
                              {"clock_graphics", "clock_graphics"},
                              {"clock_sm", "clock_sm"},
                              {"clock_memory", "clock_memory"},
                              {"clock_video", "clock_video"},
                              {"performance_state", "performance_state", 1, 0, 15},
                              {"fan_speed", "fan_speed", 1, 0, 100},
                              {"pcie_generation", "pcie_generation", 1, 1, 7},
                              {"pcie_width", "pcie_width", 1, 1, 32},
                              {"ecc_corrected_volatile", "ecc_corrected_volatile"},
                              {"ecc_uncorrected_volatile", "ecc_uncorrected_volatile"},
                              {"ecc_corrected_aggregate", "ecc_corrected_aggregate"},
                              {"ecc_uncorrected_aggregate", "ecc_uncorrected_aggregate"}};

/// A YAML text in double quotes.
std::string yaml_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : printable(text.substr(0, 200))) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

bool is_version(const std::optional<std::string>& text, std::size_t most) {
  if (!text) return false;
  const auto parts = split(*text, '.');
  return parts.size() >= 2 && parts.size() <= most &&
         std::ranges::all_of(parts, [](std::string_view part) { return part.size() <= 5 && parse_integer(part); });
}

/// One reading; an impossible one (a fan at 104 %) is held at its bound, so that one odd value costs nothing else.
std::string reading(const char* name, std::optional<double> value, bool complete) {
  if (!value && !complete) return "";
  return value ? fmt::format("      {}: {}\n", name, *value) : fmt::format("      {}: null\n", name);
}

std::optional<double> flag(const std::optional<bool>& value) {
  return value ? std::optional(*value ? 1.0 : 0.0) : std::nullopt;
}

std::string readings(const facts::GpuRecord& record, bool complete) {
  const auto row = [&](const char* name, std::optional<double> value) { return reading(name, value, complete); };
  const facts::Gpu& gpu = record.gpu;
  std::string text = "    readings:\n";
  for (const Pinned& pinned : kPinned) {
    auto value = facts::value_of(*facts::find_metric(pinned.metric), record.sample);
    if (value) value = std::clamp(*value / pinned.divisor, pinned.low, pinned.high);
    text += row(pinned.reading, value);
  }
  const auto plain = [](const auto& value) {
    return value ? std::optional(static_cast<double>(value->value)) : std::nullopt;
  };
  const auto watts = [](const std::optional<Milliwatts>& power) {
    return power ? std::optional(static_cast<double>(power->value) / 1000) : std::nullopt;
  };
  text += row("ecc_enabled", flag(gpu.ecc_enabled)) + row("persistence", flag(gpu.persistence));
  text += row("power_limit_min", watts(gpu.power_limit_min)) + row("power_limit_max", watts(gpu.power_limit_max));
  text += row("power_limit_default", watts(gpu.power_limit_default)) +
          row("clock_graphics_max", plain(gpu.clock_graphics_max));
  text += row("clock_sm_max", plain(gpu.clock_sm_max)) + row("clock_memory_max", plain(gpu.clock_memory_max));
  text += row("pcie_generation_max", plain(gpu.pcie_generation_max)) + row("pcie_width_max", plain(gpu.pcie_width_max));
  if (gpu.compute_mode) text += fmt::format("      compute_mode: {}\n", static_cast<int>(*gpu.compute_mode));
  return text == "    readings:\n" ? "" : text;
}

std::string processes(const facts::GpuRecord& record) {
  std::string text;
  Bytes held;
  const Bytes total = record.sample.memory_total.value_or(Bytes(0));
  for (const auto& process : record.processes.value_or(std::vector<facts::GpuProcess>{})) {
    if (process.pid.value < 1 || process.pid.value > 4194304) continue;
    text += fmt::format("    - {{pid: {}, type: {}, command: {}", process.pid.value,
                        process.listed ? facts::type_of(process) : "C", yaml_text(process.command.value_or("?")));
    // What processes hold may add up to more than there is in a capture (shared memory is counted twice).
    if (process.memory && held + *process.memory <= total) {
      text += fmt::format(", memory: {}MiB", process.memory->value >> 20U);
      held += *process.memory;
    }
    text += "}\n";
  }
  return text.empty() ? "" : "    processes:\n" + text;
}

bool is_bus_id(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789ABCDEF:.") == std::string_view::npos &&
         text[8] == ':' && text[11] == ':' && text[14] == '.';
}

/// What a profile's name says where the capture says no more: "2g.20gb" has two slices and 20 GB.
void complete_instance(const facts::Gpu& gpu, facts::MigDevice& device) {
  const auto parts = split(*device.profile, '.');
  if (parts.size() != 2 || !parts[0].ends_with('g') || !parts[1].ends_with("gb")) return;
  const auto slices = parse_integer(parts[0].substr(0, parts[0].size() - 1));
  const auto gigabytes = parse_integer(parts[1].substr(0, parts[1].size() - 2));
  if (!slices || !gigabytes || *slices < 1 || *slices > 7 || *gigabytes < 1 || *gigabytes > 1024) return;
  if (!device.multiprocessors)
    device.multiprocessors = Count(
        *slices * knowledge::mig_slice_multiprocessors(gpu.compute_capability ? gpu.compute_capability->major : 8));
  if (!device.memory_total) device.memory_total = static_cast<std::uint64_t>(*gigabytes) * 1_GiB;
}

std::string mig(const facts::GpuRecord& record) {
  if (!record.gpu.mig_enabled.value_or(false)) return "";
  std::string text;
  for (facts::MigDevice device : record.mig_devices) {
    if (!device.profile) continue;
    complete_instance(record.gpu, device);
    text +=
        fmt::format("{}{{profile: {}, gpu_instance: {}, compute_instance: {}", text.empty() ? "" : ", ",
                    yaml_text(*device.profile), device.gpu_instance.value_or(0), device.compute_instance.value_or(0));
    if (device.memory_total) text += fmt::format(", memory: {}MiB", device.memory_total->value >> 20U);
    if (device.multiprocessors) text += fmt::format(", multiprocessors: {}", device.multiprocessors->value);
    if (device.memory_used) text += fmt::format(", memory_used: {}MiB", device.memory_used->value >> 20U);
    text += '}';
  }
  return fmt::format("    mig: {{enabled: true, instances: [{}]}}\n", text);
}

/// Identities that a capture hides ("00000000:XX:00.0") or repeats are left to the simulator to make up.
std::string identity(const facts::GpuRecord& record, std::set<std::string>& seen) {
  const auto once = [&](const std::string& text) { return seen.insert(text).second; };
  std::string text;
  if (record.gpu.uuid.value.starts_with("GPU-") && once(record.gpu.uuid.value))
    text += fmt::format("    uuid: {}\n", yaml_text(record.gpu.uuid.value));
  if (is_bus_id(record.gpu.pci_bus_id) && once(record.gpu.pci_bus_id))
    text += fmt::format("    bus_id: {}\n", yaml_text(record.gpu.pci_bus_id));
  if (record.gpu.serial) text += fmt::format("    serial: {}\n", yaml_text(*record.gpu.serial));
  if (record.gpu.vbios_version) text += fmt::format("    vbios: {}\n", yaml_text(*record.gpu.vbios_version));
  return text;
}

std::string gpu(const facts::GpuRecord& record, std::set<std::string>& seen, bool complete) {
  std::string text = fmt::format("  - model: {}\n", yaml_text(record.gpu.name)) + identity(record, seen);
  const auto& total = record.sample.memory_total;
  if (total && total->value > 0) text += fmt::format("    memory: {}MiB\n", total->value >> 20U);
  return text + mig(record) + processes(record) + readings(record, complete);
}

}  // namespace

Result<std::string> fleet_yaml_from(const facts::Snapshot& snapshot, std::string_view name, bool complete) {
  if (snapshot.gpus.empty()) return fail(ErrorCode::invalid_argument, "the capture has no GPU");
  for (const auto& record : snapshot.gpus) {
    if (record.gpu.vendor != "NVIDIA") {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the capture shows a GPU of {}: only NVIDIA's are simulated", record.gpu.vendor));
    }
    if (record.gpu.name.empty()) {
      return fail(ErrorCode::invalid_argument, "the capture does not say what its GPUs are",
                  "add the output of nvidia-smi -L to the file");
    }
  }
  std::string text = fmt::format("# made from a capture\nname: {}\n", yaml_text(name));
  if (is_version(snapshot.driver_version, 3)) text += fmt::format("driver: {}\n", *snapshot.driver_version);
  if (is_version(snapshot.cuda_driver_version, 2)) text += fmt::format("cuda: \"{}\"\n", *snapshot.cuda_driver_version);
  text += "gpus:\n";
  std::set<std::string> seen;
  for (const auto& record : snapshot.gpus) text += gpu(record, seen, complete);
  return text;
}

}  // namespace gpuwarden::machine
