// SPDX-License-Identifier: Apache-2.0
#include "capture/smi_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "capture/cells.hpp"
#include "capture/identity.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::capture {
namespace {

using facts::GpuRecord;
using facts::GpuSample;

std::optional<Bytes> memory_at(const Node& node, std::string_view path) { return memory_of(node.at(path).text); }

std::optional<double> watts(const Node& node) { return number_of(node.text, "W"); }

template <class Quantity>
void put_number(std::optional<Quantity>& target, const Node& node, std::string_view unit = "", double scale = 1) {
  put(target, number_of(node.text, unit), scale);
}

std::optional<std::string> words(const Node& node) { return text_of(node.text); }

void read_identity(const Node& node, facts::Gpu& gpu) {
  gpu.name = words(node.at("product_name")).value_or("unknown GPU");
  gpu.uuid = Uuid(words(node.first({"uuid", "gpu_uuid"})).value_or(""));
  gpu.serial = words(node.first({"serial", "serial_number"}));
  gpu.vbios_version = words(node.at("vbios_version"));
  gpu.board_part_number = words(node.telling({"board_part_number", "gpu_part_number"}));
  gpu.brand = words(node.at("product_brand"));
  gpu.architecture = words(node.at("product_architecture"));
  gpu.board_id = words(node.at("board_id"));
  gpu.persistence = flag_of(node.at("persistence_mode").text);
  gpu.accounting = flag_of(node.at("accounting_mode").text);
  gpu.display_attached = flag_of(node.telling({"display_attached", "display_mode"}).text);
  gpu.display_active = flag_of(node.at("display_active").text);
  gpu.ecc_enabled = flag_of(node.first({"ecc_mode/current_ecc", "ecc_mode/current"}).text);
  gpu.mig_enabled = flag_of(node.first({"mig_mode/current_mig", "mig_mode/current"}).text);
  gpu.mig_pending = flag_of(node.first({"mig_mode/pending_mig", "mig_mode/pending"}).text);
  gpu.gsp_firmware_version = words(node.at("gsp_firmware_version"));
  gpu.inforom_image_version = words(node.first({"inforom_version/img_version", "inforom_version/image_version"}));
  gpu.inforom_oem_version = words(node.at("inforom_version/oem_object"));
  gpu.inforom_ecc_version = words(node.at("inforom_version/ecc_object"));
  gpu.inforom_power_version =
      words(node.first({"inforom_version/pwr_object", "inforom_version/power_management_object"}));
  gpu.addressing_mode = words(node.at("addressing_mode"));
  put_number(gpu.minor_number, node.at("minor_number"));
  gpu.compute_mode = compute_mode_of(node.at("compute_mode").text);
}

void read_place(const Node& node, facts::Gpu& gpu) {
  const Node& pci = node.at("pci");
  gpu.pci_bus_id = bus_id_of(pci.telling({"pci_bus_id", "bus_id"}).text).value_or(bus_id_of(node.text).value_or(""));
  const std::string id = words(pci.first({"pci_device_id", "device_id"})).value_or("");
  const std::string_view digits = std::string_view(id).substr(id.starts_with("0x") ? 2 : 0);
  std::uint32_t value = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() == 8 && end.ec == std::errc{} && end.ptr == digits.data() + digits.size())
    gpu.pci_device_id = value;
  const Node& link = pci.first({"pci_gpu_link_info", "gpu_link_info"});
  put_number(gpu.pcie_generation_max, link.first({"pcie_gen/max_link_gen", "pcie_generation/max"}));
  put_number(gpu.pcie_width_max, link.first({"link_widths/max_link_width", "link_width/max"}), "x");
}

void read_limits(const Node& node, facts::Gpu& gpu) {
  const Node& power = node.first({"gpu_power_readings", "power_readings"});
  put(gpu.power_limit_min, watts(power.at("min_power_limit")), 1000);
  put(gpu.power_limit_max, watts(power.at("max_power_limit")), 1000);
  put(gpu.power_limit_default, watts(power.at("default_power_limit")), 1000);
  const Node& clocks = node.at("max_clocks");
  put_number(gpu.clock_graphics_max, clocks.first({"graphics_clock", "graphics"}), "MHz");
  put_number(gpu.clock_sm_max, clocks.first({"sm_clock", "sm"}), "MHz");
  put_number(gpu.clock_memory_max, clocks.first({"mem_clock", "memory"}), "MHz");
  put_number(gpu.clock_video_max, clocks.first({"video_clock", "video"}), "MHz");
  const Node& heat = node.at("temperature");
  put_number(gpu.temperature_shutdown, heat.first({"gpu_temp_max_threshold", "gpu_shutdown_temp"}), "C");
  put_number(gpu.temperature_slowdown, heat.first({"gpu_temp_slow_threshold", "gpu_slowdown_temp"}), "C");
  put_number(gpu.temperature_max, heat.first({"gpu_temp_max_gpu_threshold", "gpu_max_operating_temp"}), "C");
  put_number(gpu.temperature_memory_max, heat.first({"gpu_temp_max_mem_threshold", "memory_max_operating_temp"}), "C");
  put_number(gpu.temperature_acoustic, heat.first({"gpu_target_temperature"}), "C");
}

void read_throttle(const Node& node, GpuSample& sample) {
  using facts::ThrottleReason;
  static constexpr std::pair<std::string_view, ThrottleReason> kNames[] = {
      {"gpu_idle", ThrottleReason::gpu_idle},
      {"idle", ThrottleReason::gpu_idle},
      {"applications_clocks_setting", ThrottleReason::applications_clocks_setting},
      {"sw_power_cap", ThrottleReason::sw_power_cap},
      {"hw_slowdown", ThrottleReason::hw_slowdown},
      {"hw_thermal_slowdown", ThrottleReason::hw_thermal_slowdown},
      {"hw_power_brake_slowdown", ThrottleReason::hw_power_brake},
      {"hw_slowdown/hw_thermal_slowdown", ThrottleReason::hw_thermal_slowdown},
      {"hw_slowdown/hw_power_brake_slowdown", ThrottleReason::hw_power_brake},
      {"sync_boost", ThrottleReason::sync_boost},
      {"sw_thermal_slowdown", ThrottleReason::sw_thermal_slowdown},
      {"display_clocks_setting", ThrottleReason::display_clock_setting},
      {"display_clock_setting", ThrottleReason::display_clock_setting}};
  for (const auto& [group, prefix] : {std::pair("clocks_event_reasons", "clocks_event_reason_"),
                                      std::pair("clocks_throttle_reasons", "clocks_throttle_reason_")}) {
    const Node& reasons = node.at(group);
    if (reasons.children.empty()) continue;
    auto& found = sample.throttle_reasons.emplace();
    for (const auto& [name, reason] : kNames) {
      const bool active =
          reasons.at(std::string(prefix).append(name)).text == "Active" || reasons.at(name).text == "Active";
      if (active && std::ranges::find(found, reason) == found.end()) found.push_back(reason);
    }
    return;
  }
}

void read_slowdowns(const Node& node, GpuSample& sample) {
  const Node& counters = node.at("clocks_event_reasons_counters");
  const auto read = [&](std::optional<Microseconds>& target, std::initializer_list<std::string_view> paths) {
    put_number(target, counters.first(paths), "us");
  };
  read(sample.slowdown_power, {"clocks_event_reasons_counters_sw_power_cap", "sw_power_capping"});
  read(sample.slowdown_sync_boost, {"clocks_event_reasons_counters_sync_boost", "sync_boost"});
  read(sample.slowdown_thermal, {"clocks_event_reasons_counters_sw_therm_slowdown", "sw_thermal_slowdown"});
  read(sample.slowdown_hw_thermal, {"clocks_event_reasons_counters_hw_therm_slowdown", "hw_thermal_slowdown"});
  read(sample.slowdown_hw_power_brake, {"clocks_event_reasons_counters_hw_power_brake", "hw_power_braking"});
}

/// Errors have been counted by kind ("single_bit/total") and, since Ampere, by place ("sram_correctable").
std::optional<Count> ecc_count(const Node& group, std::initializer_list<std::string_view> paths) {
  std::optional<Count> sum;
  for (const std::string_view path : paths) {
    std::optional<Count> part;
    put_number(part, group.at(path));
    if (part) sum = sum.value_or(Count(0)) + *part;
  }
  return sum;
}

void read_ecc(const Node& node, GpuSample& sample) {
  const Node& now = node.at("ecc_errors/volatile");
  const Node& life = node.at("ecc_errors/aggregate");
  const auto corrected = {std::string_view("single_bit/total"), std::string_view("sram_correctable"),
                          std::string_view("dram_correctable")};
  const auto uncorrected = {
      std::string_view("double_bit/total"),          std::string_view("sram_uncorrectable"),
      std::string_view("dram_uncorrectable"),        std::string_view("sram_uncorrectable_parity"),
      std::string_view("sram_uncorrectable_secded"), std::string_view("sram_uncorrectable_sec_ded")};
  sample.ecc_corrected_volatile = ecc_count(now, corrected);
  sample.ecc_uncorrected_volatile = ecc_count(now, uncorrected);
  sample.ecc_corrected_aggregate = ecc_count(life, corrected);
  sample.ecc_uncorrected_aggregate = ecc_count(life, uncorrected);
}

void read_repairs(const Node& node, GpuSample& sample) {
  const auto flag = [](std::optional<Count>& target, const Node& answer) {
    if (const auto yes = flag_of(answer.text)) target = Count(*yes ? 1 : 0);
  };
  const Node& pages = node.at("retired_pages");
  put_number(sample.retired_pages_single_bit,
             pages.first({"multiple_single_bit_retirement/retired_count", "single_bit_ecc"}));
  put_number(sample.retired_pages_double_bit, pages.first({"double_bit_retirement/retired_count", "double_bit_ecc"}));
  flag(sample.retired_pages_pending,
       pages.first({"pending_blacklist", "pending_retirement", "pending_page_blacklist", "pending"}));
  const Node& rows = node.at("remapped_rows");
  put_number(sample.remapped_rows_corrected, rows.first({"remapped_row_corr", "correctable_error"}));
  put_number(sample.remapped_rows_uncorrected, rows.first({"remapped_row_unc", "uncorrectable_error"}));
  flag(sample.remapped_rows_pending, rows.first({"remapped_row_pending", "pending"}));
  flag(sample.remapped_rows_failed, rows.first({"remapped_row_failure", "remapping_failure_occurred"}));
  const Node& banks = rows.first({"row_remapper_histogram", "bank_remap_availability_histogram"});
  if (!banks) return;
  facts::RemapAvailability availability;
  const auto bank = [&](std::optional<Count>& target, std::initializer_list<std::string_view> paths) {
    put(target, number_of(banks.first(paths).text, "bank(s)"));
  };
  bank(availability.max, {"row_remapper_histogram_max", "max"});
  bank(availability.high, {"row_remapper_histogram_high", "high"});
  bank(availability.partial, {"row_remapper_histogram_partial", "partial"});
  bank(availability.low, {"row_remapper_histogram_low", "low"});
  bank(availability.none, {"row_remapper_histogram_none", "none"});
  if (availability != facts::RemapAvailability{}) sample.remap_availability = availability;
}

void read_memory(const Node& node, GpuSample& sample) {
  const Node& memory = node.at("fb_memory_usage");
  sample.memory_total = memory_at(memory, "total");
  sample.memory_used = memory_at(memory, "used");
  sample.memory_free = memory_at(memory, "free");
  sample.memory_reserved = memory_at(memory, "reserved");
  const Node& bar1 = node.at("bar1_memory_usage");
  sample.bar1_total = memory_at(bar1, "total");
  sample.bar1_used = memory_at(bar1, "used");
  sample.bar1_free = memory_at(bar1, "free");
}

void read_utilization(const Node& node, GpuSample& sample) {
  const Node& busy = node.at("utilization");
  put_number(sample.utilization_gpu, busy.first({"gpu_util", "gpu"}), "%");
  put_number(sample.utilization_memory, busy.first({"memory_util", "memory"}), "%");
  put_number(sample.utilization_encoder, busy.first({"encoder_util", "encoder"}), "%");
  put_number(sample.utilization_decoder, busy.first({"decoder_util", "decoder"}), "%");
  put_number(sample.utilization_jpeg, busy.first({"jpeg_util", "jpeg"}), "%");
  put_number(sample.utilization_ofa, busy.first({"ofa_util", "ofa"}), "%");
  put_number(sample.encoder_sessions, node.first({"encoder_stats/session_count", "encoder_stats/active_sessions"}));
  put_number(sample.encoder_frame_rate, node.at("encoder_stats/average_fps"));
  put_number(sample.encoder_latency, node.at("encoder_stats/average_latency"));
  put_number(sample.frame_capture_sessions, node.first({"fbc_stats/session_count", "fbc_stats/active_sessions"}));
}

void read_power(const Node& node, GpuSample& sample) {
  const Node& power = node.first({"gpu_power_readings", "power_readings"});
  put(sample.power, watts(power_draw_of(node)), 1000);
  put(sample.power_average, watts(power.at("average_power_draw")), 1000);
  put(sample.power_instant, watts(power.first({"instant_power_draw", "instantaneous_power_draw"})), 1000);
  put(sample.power_limit, watts(power.telling({"current_power_limit", "enforced_power_limit", "power_limit"})), 1000);
  put(sample.power_limit_requested, watts(power.telling({"requested_power_limit", "power_limit"})), 1000);
}

void read_clocks(const Node& node, GpuSample& sample) {
  const Node& clocks = node.at("clocks");
  put_number(sample.clock_graphics, clocks.first({"graphics_clock", "graphics"}), "MHz");
  put_number(sample.clock_sm, clocks.first({"sm_clock", "sm"}), "MHz");
  put_number(sample.clock_memory, clocks.first({"mem_clock", "memory"}), "MHz");
  put_number(sample.clock_video, clocks.first({"video_clock", "video"}), "MHz");
  const Node& asked = node.at("applications_clocks");
  put_number(sample.clock_graphics_application, asked.first({"graphics_clock", "graphics"}), "MHz");
  put_number(sample.clock_memory_application, asked.first({"mem_clock", "memory"}), "MHz");
}

void read_sample(const Node& node, GpuSample& sample) {
  read_utilization(node, sample);
  read_memory(node, sample);
  read_power(node, sample);
  read_clocks(node, sample);
  const Node& heat = node.at("temperature");
  put_number(sample.temperature, heat.first({"gpu_temp", "gpu_current_temp", "gpu"}), "C");
  put_number(sample.temperature_memory, heat.first({"memory_temp", "memory_current_temp"}), "C");
  put_number(sample.temperature_margin, heat.first({"gpu_temp_tlimit", "gpu_t_limit_temp"}), "C");
  const std::string state = words(node.at("performance_state")).value_or("");
  if (state.starts_with('P')) put(sample.performance_state, number_of(std::string_view(state).substr(1), ""));
  put_number(sample.fan_speed, node.at("fan_speed"), "%");
  const Node& pci = node.at("pci");
  const Node& link = pci.first({"pci_gpu_link_info", "gpu_link_info"});
  put_number(sample.pcie_generation, link.first({"pcie_gen/current_link_gen", "pcie_generation/current"}));
  put_number(sample.pcie_width, link.first({"link_widths/current_link_width", "link_width/current"}), "x");
  put_number(sample.pcie_replays, pci.first({"replay_counter", "replays_since_reset"}));
  put_number(sample.pcie_sent, pci.first({"tx_util", "tx_throughput"}), "KB/s", 1000);
  put_number(sample.pcie_received, pci.first({"rx_util", "rx_throughput"}), "KB/s", 1000);
  read_throttle(node, sample);
  read_slowdowns(node, sample);
  read_ecc(node, sample);
  read_repairs(node, sample);
  facts::drop_impossible(sample);
}

std::optional<facts::GpuProcess> process_of(const Node& entry, std::string_view pid) {
  const auto number = number_of(pid, "");
  if (!number || *number < 0 || *number > INT32_MAX) return std::nullopt;
  facts::GpuProcess process;
  process.pid = Pid{static_cast<std::int32_t>(*number)};
  set_type(process, words(entry.at("type")).value_or("C"));
  process.command = words(entry.first({"process_name", "name"}));
  process.memory = memory_of(entry.first({"used_memory", "used_gpu_memory"}).text);
  return process;
}

std::optional<std::uint32_t> instance_of(const Node& node) {
  const auto number = number_of(node.text, "");
  return number && *number >= 0 && *number < 256 ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

/// The text's list: instance ids stand before the process that they belong to.
std::vector<facts::GpuProcess> processes_of_text(const Node& list) {
  std::vector<facts::GpuProcess> processes;
  std::optional<std::uint32_t> gpu_instance;
  std::optional<std::uint32_t> compute_instance;
  for (const Node& entry : list.children) {
    if (entry.name == "gpu_instance_id") gpu_instance = instance_of(entry);
    if (entry.name == "compute_instance_id") compute_instance = instance_of(entry);
    if (entry.name != "process_id") continue;
    auto process = process_of(entry, entry.text);
    if (!process) continue;
    process->gpu_instance = gpu_instance;
    process->compute_instance = compute_instance;
    processes.push_back(std::move(*process));
  }
  return processes;
}

void read_processes(const Node& node, GpuRecord& record) {
  const Node& list = node.at("processes");
  if (!list || (list.children.empty() && list.text.starts_with("N/A"))) return;
  record.processes = processes_of(node);
  if (std::ranges::any_of(*record.processes, &facts::GpuProcess::compute) && is_usable(record))
    record.state = facts::GpuState::busy;
}

void read_mig(const Node& node, GpuRecord& record) {
  for (const Node* entry : mig_devices_of(node)) {
    facts::MigDevice mig;
    const auto id = [&](std::string_view name) { return instance_of(entry->at(name)); };
    mig.index = id("index").value_or(static_cast<std::uint32_t>(record.mig_devices.size()));
    mig.gpu_instance = id("gpu_instance_id");
    mig.compute_instance = id("compute_instance_id");
    mig.uuid = Uuid(words(entry->at("uuid")).value_or(""));
    put_number(mig.multiprocessors, entry->at("device_attributes/shared/multiprocessor_count"));
    const Node& memory = entry->first({"fb_memory_usage", "shared_fb_memory_usage"});
    mig.memory_total = memory_at(memory, "total");
    mig.memory_used = memory_at(memory, "used");
    mig.memory_free = memory_at(memory, "free");
    const auto slices = number_of(entry->at("device_attributes/shared/gpu_instance_slice_count").text, "");
    mig.profile = mig_profile_of(record.gpu, mig, slices, record.sample.memory_total);
    mig.name = record.gpu.name + " MIG" + (mig.profile ? " " + *mig.profile : "");
    record.mig_devices.push_back(std::move(mig));
  }
}

void read_fabric(const Node& node, facts::Gpu& gpu) {
  const Node& fabric = node.at("fabric");
  const auto state = words(fabric.at("state"));
  if (!state) return;
  gpu.fabric = facts::Fabric{to_lower(*state), std::nullopt, words(fabric.first({"cluster_uuid", "clusteruuid"})), {}};
  if (const auto status = words(fabric.at("status"))) gpu.fabric->status = to_lower(*status);
  if (const auto clique = number_of(fabric.first({"clique_id", "cliqueid"}).text, "");
      clique && *clique >= 0 && *clique < 4e9)
    gpu.fabric->clique = static_cast<std::uint32_t>(*clique);
}

void read_virtualization(const Node& node, facts::Gpu& gpu) {
  const Node& mode = node.first({"gpu_virtualization_mode", "virtualization_mode"});
  if (const auto text = words(mode.at("virtualization_mode"))) {
    gpu.virtualization_mode = to_lower(*text);
    std::ranges::replace(*gpu.virtualization_mode, '-', '_');
    std::ranges::replace(*gpu.virtualization_mode, ' ', '_');
  }
}

/// The power draw's cell, whatever it says.
std::string power_cell_of(const Node& node) {
  return node
      .first({"gpu_power_readings/power_draw", "gpu_power_readings/instant_power_draw",
              "gpu_power_readings/average_power_draw", "power_readings/power_draw"})
      .text;
}

GpuRecord read_gpu(const Node& node, std::uint32_t index) {
  GpuRecord record;
  record.gpu.index = GpuIndex{index};
  read_identity(node, record.gpu);
  read_place(node, record.gpu);
  read_limits(node, record.gpu);
  read_fabric(node, record.gpu);
  read_virtualization(node, record.gpu);
  complete_from_model(record.gpu);
  note_trouble({node.at("temperature/gpu_temp").text, node.at("temperature/gpu_current_temp").text,
                node.at("fb_memory_usage/total").text, node.at("fb_memory_usage/used").text,
                node.at("performance_state").text, power_cell_of(node), node.at("product_name").text},
               record);
  read_sample(node, record.sample);
  read_processes(node, record);
  read_mig(node, record);
  return record;
}

}  // namespace

const Node& power_draw_of(const Node& gpu) {
  return gpu.telling({"gpu_power_readings/power_draw", "gpu_power_readings/instant_power_draw",
                      "gpu_power_readings/instantaneous_power_draw", "gpu_power_readings/average_power_draw",
                      "power_readings/power_draw"});
}

const Node& driver_version_of(const Node& report) { return report.first({"driver_version", "kmd_version"}); }
const Node& cuda_version_of(const Node& report) { return report.first({"cuda_version", "cuda_umd_version"}); }

std::vector<facts::GpuProcess> processes_of(const Node& gpu) {
  const Node& list = gpu.at("processes");
  if (!list.at("process_info")) return processes_of_text(list);
  std::vector<facts::GpuProcess> processes;
  for (const Node& entry : list.children) {
    if (entry.name != "process_info") continue;
    auto process = process_of(entry, entry.at("pid").text);
    if (!process) continue;
    process->gpu_instance = instance_of(entry.at("gpu_instance_id"));
    process->compute_instance = instance_of(entry.at("compute_instance_id"));
    processes.push_back(std::move(*process));
  }
  return processes;
}

std::vector<const Node*> mig_devices_of(const Node& gpu) {
  std::vector<const Node*> found;
  const Node& group = gpu.at("mig_devices");
  for (const Node& entry : (group ? group : gpu).children) {
    if (entry.name == "mig_device") found.push_back(&entry);
  }
  return found;
}

/// The driver is Windows' where it tells a model. Only Windows itself has no persistence mode: inside WSL it is on
/// (source: NVIDIA/nvidia-container-toolkit#271).
void tell_platform(const Node& gpu, facts::Snapshot& snapshot) {
  if (!words(gpu.first({"driver_model/current_dm", "driver_model/current"}))) return;
  if (!snapshot.environment) snapshot.environment.emplace();
  facts::Host& host = snapshot.environment->host;
  if (gpu.at("persistence_mode").text == "N/A" && !host.wsl)
    host.distribution = knowledge::kWindows;
  else
    host = {.wsl = 2};
}

facts::Snapshot snapshot_of_report(const Node& report) {
  facts::Snapshot snapshot;
  snapshot.source = "nvidia-smi";
  snapshot.driver_version = words(driver_version_of(report));
  snapshot.cuda_driver_version = words(cuda_version_of(report));
  if (const auto when = time_of(report.at("timestamp").text)) snapshot.taken_at = *when;
  std::uint32_t index = 0;
  for (const Node& node : report.children) {
    if (node.name != "gpu") continue;
    snapshot.gpus.push_back(read_gpu(node, index++));
    tell_platform(node, snapshot);
  }
  return snapshot;
}

}  // namespace gpuwarden::capture
