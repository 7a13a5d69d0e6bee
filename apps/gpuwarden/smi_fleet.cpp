// SPDX-License-Identifier: Apache-2.0
#include "smi_fleet.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::cli {
namespace {

/// The simulator's name of a reading, and the metric it comes from, with what to divide the metric's value by.
struct Pinned {
  const char* reading;
  const char* metric;
  double divisor = 1;
};

constexpr double kMiB = 1 << 20;
constexpr Pinned kPinned[] = {{"utilization", "utilization"},
                              {"memory_utilization", "memory_utilization"},
                              {"memory_total", "memory_total", kMiB},
                              {"memory_used", "memory_used", kMiB},
                              {"temperature", "temperature"},
                              {"power", "power"},
                              {"power_limit", "power_limit"},
                              {"clock_graphics", "clock_graphics"},
                              {"clock_sm", "clock_sm"},
                              {"clock_memory", "clock_memory"},
                              {"clock_video", "clock_video"},
                              {"performance_state", "performance_state"},
                              {"fan_speed", "fan_speed"},
                              {"pcie_generation", "pcie_generation"},
                              {"pcie_width", "pcie_width"},
                              {"ecc_corrected_volatile", "ecc_corrected_volatile"},
                              {"ecc_uncorrected_volatile", "ecc_uncorrected_volatile"},
                              {"ecc_corrected_aggregate", "ecc_corrected_aggregate"},
                              {"ecc_uncorrected_aggregate", "ecc_uncorrected_aggregate"}};

/// A YAML text in double quotes.
std::string quoted(std::string_view text) {
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

std::string readings(const facts::GpuSample& sample) {
  std::string text = "    readings:\n";
  for (const Pinned& pinned : kPinned) {
    const auto value = facts::value_of(*facts::find_metric(pinned.metric), sample);
    text += value ? fmt::format("      {}: {}\n", pinned.reading, *value / pinned.divisor)
                  : fmt::format("      {}: null\n", pinned.reading);
  }
  return text;
}

std::string processes(const facts::GpuRecord& record) {
  std::string text;
  Bytes held;
  const Bytes total = record.sample.memory_total.value_or(Bytes(0));
  for (const auto& process : record.processes.value_or(std::vector<facts::GpuProcess>{})) {
    if (process.pid.value < 1 || process.pid.value > 4194304) continue;
    text += fmt::format("    - {{pid: {}, type: {}, command: {}", process.pid.value, facts::type_of(process),
                        quoted(process.command.value_or("?")));
    // What processes hold may add up to more than there is in a capture (shared memory is counted twice).
    if (process.memory && held + *process.memory <= total) {
      text += fmt::format(", memory: {}MiB", process.memory->value >> 20U);
      held += *process.memory;
    }
    text += "}\n";
  }
  return text.empty() ? "" : "    processes:\n" + text;
}

std::string gpu(const facts::GpuRecord& record) {
  std::string text = fmt::format("  - model: {}\n", quoted(record.gpu.name));
  if (record.gpu.uuid.value.starts_with("GPU-")) text += fmt::format("    uuid: {}\n", quoted(record.gpu.uuid.value));
  if (record.gpu.pci_bus_id.size() == 16) text += fmt::format("    bus_id: {}\n", quoted(record.gpu.pci_bus_id));
  if (record.gpu.serial) text += fmt::format("    serial: {}\n", quoted(*record.gpu.serial));
  if (record.gpu.vbios_version) text += fmt::format("    vbios: {}\n", quoted(*record.gpu.vbios_version));
  if (record.sample.memory_total && record.sample.memory_total->value > 0)
    text += fmt::format("    memory: {}MiB\n", record.sample.memory_total->value >> 20U);
  return text + processes(record) + readings(record.sample);
}

}  // namespace

Result<std::string> fleet_yaml_from(const facts::Snapshot& snapshot, std::string_view name) {
  if (snapshot.gpus.empty()) return fail(ErrorCode::invalid_argument, "the capture holds no GPU");
  std::string text = fmt::format("# made from a capture of nvidia-smi -q -x\nname: {}\n", quoted(name));
  if (is_version(snapshot.driver_version, 3)) text += fmt::format("driver: {}\n", *snapshot.driver_version);
  if (is_version(snapshot.cuda_driver_version, 2)) text += fmt::format("cuda: \"{}\"\n", *snapshot.cuda_driver_version);
  text += "gpus:\n";
  for (const auto& record : snapshot.gpus) text += gpu(record);
  return text;
}

}  // namespace gpuwarden::cli
