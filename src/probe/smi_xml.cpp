// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/smi_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::probe {
namespace {

using facts::GpuRecord;
using pugi::xml_node;

/// An element's text; nothing for "N/A", "[Unknown Error]", "Not Found" and the like.
std::optional<std::string> text_of(const xml_node& node) {
  const std::string text = printable(trim(node.text().get()));
  const bool says_nothing = text.empty() || text.contains("N/A") || text.starts_with("[") || text == "Not Found" ||
                            text == "None" || text == "Unknown Error" || text == "ERR!" ||
                            text == "Insufficient Permissions" || text == "Not Supported" ||
                            text == "Requested functionality has been deprecated" || text == "Unknown";
  return says_nothing ? std::nullopt : std::optional(text);
}

/// The number at the start of "81559 MiB", "67.03 W", "16x", "P0".
std::optional<double> number_of(const xml_node& node) {
  const auto text = text_of(node);
  if (!text) return std::nullopt;
  std::string_view digits = *text;
  if (digits.starts_with('P')) digits.remove_prefix(1);
  const std::size_t end = std::min(digits.find_first_not_of("0123456789.-"), digits.size());
  return parse_number(digits.substr(0, end));
}

template <class Quantity>
void put(std::optional<Quantity>& target, const xml_node& node, double scale = 1) {
  const auto number = number_of(node);
  if (number && *number >= 0) target = Quantity(static_cast<typename Quantity::rep>(std::llround(*number * scale)));
}

std::optional<bool> flag_of(const xml_node& node, std::string_view yes) {
  const auto text = text_of(node);
  return text ? std::optional(*text == yes) : std::nullopt;
}

/// The first of several elements that says something: names changed between driver versions.
xml_node first_of(const xml_node& parent, std::initializer_list<const char*> paths) {
  for (const char* path : paths) {
    const xml_node node = parent.first_element_by_path(path);
    if (node && text_of(node)) return node;
  }
  return {};
}

/// "0000:17:00.0" or "00000000:17:00.0" with an eight-digit domain.
std::string bus_id_of(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c; });
  const std::size_t colon = text.find(':');
  if (colon < 8 && std::ranges::count(text, ':') == 2) text.insert(0, 8 - colon, '0');
  return text;
}

void read_identity(const xml_node& node, facts::Gpu& gpu) {
  gpu.name = text_of(node.child("product_name")).value_or("unknown GPU");
  gpu.uuid = Uuid(text_of(node.child("uuid")).value_or(""));
  gpu.serial = text_of(node.child("serial"));
  gpu.vbios_version = text_of(node.child("vbios_version"));
  gpu.board_part_number = text_of(first_of(node, {"board_part_number", "gpu_part_number"}));
  gpu.brand = text_of(node.child("product_brand"));
  gpu.architecture = text_of(node.child("product_architecture"));
  gpu.persistence = flag_of(node.child("persistence_mode"), "Enabled");
  gpu.ecc_enabled = flag_of(node.first_element_by_path("ecc_mode/current_ecc"), "Enabled");
  gpu.mig_enabled = flag_of(node.first_element_by_path("mig_mode/current_mig"), "Enabled");
  gpu.mig_pending = flag_of(node.first_element_by_path("mig_mode/pending_mig"), "Enabled");
  put(gpu.minor_number, node.child("minor_number"));
  const auto mode = to_lower(text_of(node.child("compute_mode")).value_or(""));
  gpu.compute_mode =
      facts::compute_mode_from(mode == "exclusive_process" || mode == "exclusive process" ? "exclusive_process" : mode);
  const xml_node pci = node.child("pci");
  const auto bus = text_of(pci.child("pci_bus_id"));
  gpu.pci_bus_id = bus_id_of(bus ? *bus : node.attribute("id").value());
  if (const auto id = text_of(pci.child("pci_device_id"))) {
    std::uint32_t value = 0;
    if (std::from_chars(id->data(), id->data() + id->size(), value, 16).ec == std::errc{}) gpu.pci_device_id = value;
  }
  const xml_node link = pci.child("pci_gpu_link_info");
  put(gpu.pcie_generation_max, link.first_element_by_path("pcie_gen/max_link_gen"));
  put(gpu.pcie_width_max, link.first_element_by_path("link_widths/max_link_width"));
}

void read_limits(const xml_node& node, facts::Gpu& gpu) {
  for (const char* name : {"gpu_power_readings", "power_readings"}) {
    const xml_node power = node.child(name);
    if (!power) continue;
    put(gpu.power_limit_min, power.child("min_power_limit"), 1000);
    put(gpu.power_limit_max, power.child("max_power_limit"), 1000);
    put(gpu.power_limit_default, power.child("default_power_limit"), 1000);
    break;
  }
  put(gpu.clock_graphics_max, node.first_element_by_path("max_clocks/graphics_clock"));
  put(gpu.clock_sm_max, node.first_element_by_path("max_clocks/sm_clock"));
  put(gpu.clock_memory_max, node.first_element_by_path("max_clocks/mem_clock"));
  if (const auto* model = knowledge::find_gpu_model(gpu.name)) {
    gpu.compute_capability = facts::ComputeCapability{model->capability_major, model->capability_minor};
    if (model->multiprocessors > 0) gpu.multiprocessors = Count(model->multiprocessors);
    if (model->cuda_cores > 0) gpu.cuda_cores = Count(model->cuda_cores);
  }
}

void read_throttle(const xml_node& node, facts::GpuSample& sample) {
  static constexpr std::pair<const char*, facts::ThrottleReason> kNames[] = {
      {"gpu_idle", facts::ThrottleReason::gpu_idle},
      {"applications_clocks_setting", facts::ThrottleReason::applications_clocks_setting},
      {"sw_power_cap", facts::ThrottleReason::sw_power_cap},
      {"hw_slowdown", facts::ThrottleReason::hw_slowdown},
      {"sync_boost", facts::ThrottleReason::sync_boost},
      {"sw_thermal_slowdown", facts::ThrottleReason::sw_thermal_slowdown},
      {"hw_thermal_slowdown", facts::ThrottleReason::hw_thermal_slowdown},
      {"hw_power_brake_slowdown", facts::ThrottleReason::hw_power_brake},
      {"display_clocks_setting", facts::ThrottleReason::display_clock_setting}};
  for (const auto& [group, prefix] : {std::pair("clocks_event_reasons", "clocks_event_reason_"),
                                      std::pair("clocks_throttle_reasons", "clocks_throttle_reason_")}) {
    const xml_node reasons = node.child(group);
    if (!reasons || !reasons.first_child().first_child()) continue;
    auto& found = sample.throttle_reasons.emplace();
    for (const auto& [name, reason] : kNames) {
      if (text_of(reasons.child((std::string(prefix) + name).c_str())) == "Active") found.push_back(reason);
    }
    return;
  }
}

/// Errors have been counted by kind ("single_bit/total") and, since Ampere, by place ("sram_correctable").
std::optional<Count> ecc_count(const xml_node& group, std::initializer_list<const char*> paths) {
  std::optional<Count> sum;
  for (const char* path : paths) {
    std::optional<Count> part;
    put(part, group.first_element_by_path(path));
    if (part) sum = sum.value_or(Count(0)) + *part;
  }
  return sum;
}

void read_ecc(const xml_node& node, facts::GpuSample& sample) {
  const xml_node now = node.first_element_by_path("ecc_errors/volatile");
  const xml_node life = node.first_element_by_path("ecc_errors/aggregate");
  const auto corrected = {"single_bit/total", "sram_correctable", "dram_correctable"};
  const auto uncorrected = {"double_bit/total", "sram_uncorrectable", "dram_uncorrectable", "sram_uncorrectable_parity",
                            "sram_uncorrectable_secded"};
  sample.ecc_corrected_volatile = ecc_count(now, corrected);
  sample.ecc_uncorrected_volatile = ecc_count(now, uncorrected);
  sample.ecc_corrected_aggregate = ecc_count(life, corrected);
  sample.ecc_uncorrected_aggregate = ecc_count(life, uncorrected);
}

void read_sample(const xml_node& node, facts::GpuSample& sample) {
  constexpr double kMiB = 1 << 20;
  put(sample.utilization_gpu, node.first_element_by_path("utilization/gpu_util"));
  put(sample.utilization_memory, node.first_element_by_path("utilization/memory_util"));
  const xml_node memory = node.child("fb_memory_usage");
  put(sample.memory_total, memory.child("total"), kMiB);
  put(sample.memory_used, memory.child("used"), kMiB);
  put(sample.memory_free, memory.child("free"), kMiB);
  put(sample.memory_reserved, memory.child("reserved"), kMiB);
  put(sample.temperature, node.first_element_by_path("temperature/gpu_temp"));
  put(sample.power,
      first_of(node, {"gpu_power_readings/power_draw", "gpu_power_readings/instant_power_draw",
                      "gpu_power_readings/average_power_draw", "power_readings/power_draw"}),
      1000);
  put(sample.power_limit,
      first_of(node,
               {"gpu_power_readings/current_power_limit", "gpu_power_readings/enforced_power_limit",
                "gpu_power_readings/power_limit", "power_readings/enforced_power_limit", "power_readings/power_limit"}),
      1000);
  put(sample.clock_graphics, node.first_element_by_path("clocks/graphics_clock"));
  put(sample.clock_sm, node.first_element_by_path("clocks/sm_clock"));
  put(sample.clock_memory, node.first_element_by_path("clocks/mem_clock"));
  put(sample.clock_video, node.first_element_by_path("clocks/video_clock"));
  put(sample.performance_state, node.child("performance_state"));
  put(sample.fan_speed, node.child("fan_speed"));
  put(sample.pcie_generation, node.first_element_by_path("pci/pci_gpu_link_info/pcie_gen/current_link_gen"));
  put(sample.pcie_width, node.first_element_by_path("pci/pci_gpu_link_info/link_widths/current_link_width"));
  read_throttle(node, sample);
  read_ecc(node, sample);
}

void read_processes(const xml_node& node, GpuRecord& record) {
  const xml_node list = node.child("processes");
  if (!list || (!list.child("process_info") && text_of(list).value_or("x") == "x" &&
                std::string_view(list.text().get()).contains("N/A")))
    return;
  auto& processes = record.processes.emplace();
  for (const xml_node& entry : list.children("process_info")) {
    facts::GpuProcess process;
    const auto pid = number_of(entry.child("pid"));
    if (!pid) continue;
    process.pid = Pid{static_cast<std::int32_t>(*pid)};
    const std::string type = text_of(entry.child("type")).value_or("C");
    process.compute = type.contains('C');
    process.graphics = type.contains('G');
    process.command = text_of(entry.child("process_name"));
    put(process.memory, entry.child("used_memory"), 1 << 20);
    std::optional<Count> instance;
    put(instance, entry.child("gpu_instance_id"));
    if (instance) process.gpu_instance = static_cast<std::uint32_t>(instance->value);
    processes.push_back(std::move(process));
  }
  if (std::ranges::any_of(processes, &facts::GpuProcess::compute)) record.state = facts::GpuState::busy;
}

/// "3g.40gb": the log does not name the profile. Compute slices are seventh parts of the multiprocessors, memory slices
/// eighth parts of the memory (source: NVIDIA's MIG user guide), named by the GPU's size in GB.
std::optional<std::string> profile_of(const facts::MigDevice& mig, std::optional<double> slices,
                                      const std::optional<Bytes>& whole) {
  if (!mig.memory_total || !whole || whole->value == 0) return std::nullopt;
  const double share = ratio(*mig.memory_total, *whole);
  const double eighths = std::max(1.0, std::round(share * 8));
  const double whole_gb = std::round(static_cast<double>(whole->value) / (1 << 30) / 10) * 10;
  if (!slices && !mig.multiprocessors) return std::nullopt;
  const double compute =
      slices ? *slices : std::max(1.0, std::floor(static_cast<double>(mig.multiprocessors->value) / 14));
  return fmt::format("{:.0f}g.{:.0f}gb", compute, std::floor(whole_gb * eighths / 8));
}

void read_mig(const xml_node& node, GpuRecord& record) {
  for (const xml_node& entry : node.child("mig_devices").children("mig_device")) {
    facts::MigDevice mig;
    const auto number = [&](const char* name) {
      return static_cast<std::uint32_t>(number_of(entry.child(name)).value_or(0));
    };
    mig.index = number("index");
    mig.gpu_instance = number("gpu_instance_id");
    mig.compute_instance = number("compute_instance_id");
    mig.uuid = Uuid(text_of(entry.child("uuid")).value_or(""));
    put(mig.multiprocessors, entry.first_element_by_path("device_attributes/shared/multiprocessor_count"));
    put(mig.memory_total, entry.first_element_by_path("fb_memory_usage/total"), 1 << 20);
    put(mig.memory_used, entry.first_element_by_path("fb_memory_usage/used"), 1 << 20);
    put(mig.memory_free, entry.first_element_by_path("fb_memory_usage/free"), 1 << 20);
    const auto slices = number_of(entry.first_element_by_path("device_attributes/shared/gpu_instance_slice_count"));
    mig.profile = profile_of(mig, slices, record.sample.memory_total);
    mig.name = record.gpu.name + " MIG" + (mig.profile ? " " + *mig.profile : "");
    record.mig_devices.push_back(std::move(mig));
  }
}

GpuRecord read_gpu(const xml_node& node, std::uint32_t index) {
  GpuRecord record;
  record.gpu.index = GpuIndex{index};
  read_identity(node, record.gpu);
  read_limits(node, record.gpu);
  read_sample(node, record.sample);
  read_processes(node, record);
  read_mig(node, record);
  return record;
}

}  // namespace

Result<facts::Snapshot> snapshot_from_smi_xml(std::string_view xml) {
  pugi::xml_document document;
  // A blank line before the declaration is common in pasted logs; pugixml does not mind once it is gone.
  const std::string_view text = trim(xml);
  const auto parsed = document.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_fragment);
  xml_node root = document.child("nvidia_smi_log");
  if (!root) root = document;
  if (!parsed || (!root.child("gpu") && !root.child("attached_gpus"))) {
    return fail(ErrorCode::corrupt,
                parsed ? "this is no log of nvidia-smi -q -x"
                       : fmt::format("this is no whole XML file: {} at byte {}", parsed.description(), parsed.offset),
                "make one with nvidia-smi -q -x > FILE");
  }
  facts::Snapshot snapshot;
  snapshot.source = "nvidia-smi";
  snapshot.driver_version = text_of(root.child("driver_version"));
  snapshot.cuda_driver_version = text_of(root.child("cuda_version"));
  std::uint32_t index = 0;
  for (const xml_node& node : root.children("gpu")) snapshot.gpus.push_back(read_gpu(node, index++));
  return snapshot;
}

}  // namespace gpuwarden::probe
