// SPDX-License-Identifier: Apache-2.0
#include "capture/vendor_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "capture/cells.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::capture {
namespace {

using facts::GpuRecord;
using Json = nlohmann::json;

constexpr double kMiB = 1U << 20U;

/// A value that may be a string ("45.0"), a number, or {"value": 10, "unit": "W"}.
std::optional<double> number_of_json(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return number_of(json.get<std::string>(), {"", "W", "C", "MB", "%", "MHz"});
  if (json.is_object() && json.contains("value")) return number_of_json(json["value"]);
  return std::nullopt;
}

std::optional<std::string> text_of_json(const Json& json) {
  return json.is_string() ? text_of(json.get<std::string>()) : std::nullopt;
}

/// The member on a path of keys, or null.
const Json& at(const Json& json, std::initializer_list<const char*> path) {
  static const Json kNull;
  const Json* node = &json;
  for (const char* key : path) {
    if (!node->is_object()) return kNull;
    const auto found = node->find(key);
    if (found == node->end()) return kNull;
    node = &*found;
  }
  return *node;
}

/// A key of a tool, the metric it holds, and the factor to that metric's shown unit.
struct Key {
  const char* name;
  std::string_view metric;
  double factor = 1;
};

// ROCm releases name one thing in several ways; the first that is there is taken.
constexpr auto kRocmKeys = std::to_array<Key>({{"Temperature (Sensor edge) (C)", "temperature"},
                                               {"Temperature (Sensor junction) (C)", "temperature"},
                                               {"Temperature (Sensor memory) (C)", "memory_temperature"},
                                               {"Temperature (Sensor mem) (C)", "memory_temperature"},
                                               {"Average Graphics Package Power (W)", "power"},
                                               {"Current Socket Graphics Package Power (W)", "power"},
                                               {"Max Graphics Package Power (W)", "power_limit"},
                                               {"GPU use (%)", "utilization"},
                                               {"DCU use (%)", "utilization"},
                                               {"Fan speed (%)", "fan_speed"},
                                               {"VRAM Total Memory (B)", "memory_total"},
                                               {"VRAM Total Used Memory (B)", "memory_used"},
                                               {"vram Total Memory (B)", "memory_total"},
                                               {"vram Total Used Memory (B)", "memory_used"},
                                               {"vram Total Memory (MiB)", "memory_total", kMiB},
                                               {"vram Total Used Memory (MiB)", "memory_used", kMiB},
                                               {"PCIe Replay Count", "pcie_replays"}});

void set_metric(GpuRecord& record, std::string_view id, std::optional<double> value, double factor) {
  const auto* metric = facts::find_metric(id);
  if (metric == nullptr || !value || value_of(*metric, record.sample)) return;
  if (*value < -1e6 || *value * factor > 1e18) return;
  set_value(*metric, record.sample, *value * factor);
}

void finish(GpuRecord& record) {
  facts::GpuSample& sample = record.sample;
  facts::drop_impossible(sample);
  if (!sample.memory_free && sample.memory_total && sample.memory_used && *sample.memory_used <= *sample.memory_total)
    sample.memory_free = *sample.memory_total - *sample.memory_used;
}

/// "card12": its number.
std::optional<std::uint32_t> card_number(const std::string& key) {
  if (!key.starts_with("card")) return std::nullopt;
  const auto number = parse_integer(std::string_view(key).substr(4));
  return number && *number >= 0 && *number < 4096 ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

GpuRecord rocm_card(std::uint32_t index, const Json& card) {
  GpuRecord record;
  record.gpu.vendor = "AMD";
  record.gpu.index = GpuIndex{index};
  for (const char* key : {"Card Series", "Card series", "Device Name", "Card Model", "Card model", "Market Name"}) {
    const auto name = text_of_json(at(card, {key}));
    if (name && !name->starts_with("0x") && record.gpu.name.empty()) record.gpu.name = *name;
  }
  if (record.gpu.name.empty()) record.gpu.name = "AMD GPU";
  record.gpu.uuid = Uuid(text_of_json(at(card, {"Unique ID"})).value_or(""));
  record.gpu.serial = text_of_json(at(card, {"Serial Number"}));
  record.gpu.vbios_version = text_of_json(at(card, {"VBIOS version"}));
  record.gpu.pci_bus_id = bus_id_of(text_of_json(at(card, {"PCI Bus"})).value_or("")).value_or("");
  for (const Key& key : kRocmKeys) set_metric(record, key.metric, number_of_json(at(card, {key.name})), key.factor);
  finish(record);
  return record;
}

facts::Snapshot rocm(const Json& json) {
  facts::Snapshot snapshot;
  snapshot.source = "rocm-smi";
  for (const auto& [key, card] : json.items()) {
    const auto index = card_number(key);
    if (index && card.is_object()) snapshot.gpus.push_back(rocm_card(*index, card));
  }
  std::ranges::sort(snapshot.gpus, {}, [](const GpuRecord& record) { return record.gpu.index; });
  snapshot.driver_version = text_of_json(at(json, {"system", "Driver version"}));
  return snapshot;
}

GpuRecord amd_gpu(const Json& gpu) {
  GpuRecord record;
  record.gpu.vendor = "AMD";
  if (const auto index = number_of_json(at(gpu, {"gpu"})); index && *index >= 0 && *index < 4096)
    record.gpu.index = GpuIndex{static_cast<std::uint32_t>(*index)};
  for (const Json* name : {&at(gpu, {"asic", "market_name"}), &at(gpu, {"board", "product_name"})}) {
    if (record.gpu.name.empty()) record.gpu.name = text_of_json(*name).value_or("");
  }
  if (record.gpu.name.empty()) record.gpu.name = "AMD GPU";
  record.gpu.serial = text_of_json(at(gpu, {"board", "product_serial"}));
  record.gpu.uuid = Uuid(text_of_json(at(gpu, {"uuid"})).value_or(""));
  record.gpu.pci_bus_id = bus_id_of(text_of_json(at(gpu, {"bus", "bdf"})).value_or("")).value_or("");
  set_metric(record, "power", number_of_json(at(gpu, {"power", "socket_power"})), 1);
  set_metric(record, "temperature", number_of_json(at(gpu, {"temperature", "edge"})), 1);
  set_metric(record, "temperature", number_of_json(at(gpu, {"temperature", "hotspot"})), 1);
  set_metric(record, "memory_temperature", number_of_json(at(gpu, {"temperature", "mem"})), 1);
  set_metric(record, "utilization", number_of_json(at(gpu, {"usage", "gfx_activity"})), 1);
  set_metric(record, "memory_utilization", number_of_json(at(gpu, {"usage", "umc_activity"})), 1);
  set_metric(record, "memory_total", number_of_json(at(gpu, {"mem_usage", "total_vram"})), kMiB);
  set_metric(record, "memory_total", number_of_json(at(gpu, {"vram", "size"})), kMiB);
  set_metric(record, "memory_used", number_of_json(at(gpu, {"mem_usage", "used_vram"})), kMiB);
  finish(record);
  return record;
}

facts::Snapshot amd(const Json& json) {
  facts::Snapshot snapshot;
  snapshot.source = "amd-smi";
  const Json& list = json.is_object() ? at(json, {"gpu_data"}) : json;
  for (const Json& gpu : list) {
    if (gpu.is_object() && gpu.contains("gpu")) snapshot.gpus.push_back(amd_gpu(gpu));
  }
  return snapshot;
}

facts::Snapshot xpu(const Json& json) {
  facts::Snapshot snapshot;
  snapshot.source = "xpu-smi";
  for (const Json& device : at(json, {"device_list"})) {
    GpuRecord record;
    record.gpu.vendor = "Intel";
    if (const auto index = number_of_json(at(device, {"device_id"})); index && *index >= 0 && *index < 4096)
      record.gpu.index = GpuIndex{static_cast<std::uint32_t>(*index)};
    record.gpu.name = text_of_json(at(device, {"device_name"})).value_or("Intel GPU");
    record.gpu.uuid = Uuid(text_of_json(at(device, {"uuid"})).value_or(""));
    record.gpu.pci_bus_id = bus_id_of(text_of_json(at(device, {"pci_bdf_address"})).value_or("")).value_or("");
    snapshot.gpus.push_back(std::move(record));
  }
  return snapshot;
}

bool is_amd_list(const Json& json) {
  return json.is_array() && !json.empty() && json[0].is_object() && json[0].contains("gpu");
}

}  // namespace

std::optional<VendorTool> vendor_tool_of(const Json& json) {
  if (is_amd_list(json) || (json.is_object() && is_amd_list(at(json, {"gpu_data"})))) return VendorTool::amd_smi;
  if (!json.is_object()) return std::nullopt;
  if (at(json, {"device_list"}).is_array()) return VendorTool::xpu_smi;
  for (const auto& [key, value] : json.items()) {
    if (card_number(key) && value.is_object()) return VendorTool::rocm_smi;
  }
  return std::nullopt;
}

facts::Snapshot snapshot_of_vendor_json(VendorTool tool, const Json& json) {
  switch (tool) {
    case VendorTool::rocm_smi:
      return rocm(json);
    case VendorTool::amd_smi:
      return amd(json);
    case VendorTool::xpu_smi:
      return xpu(json);
  }
  return {};
}

std::optional<ToolCommand> tool_command_of(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = trim(text.substr(0, end));
  std::string_view words = line.starts_with("$ ") ? line.substr(2) : line;
  if (words.starts_with("sudo ")) words = words.substr(5);
  static constexpr std::pair<std::string_view, VendorTool> kTools[] = {{"amd-smi", VendorTool::amd_smi},
                                                                       {"rocm-smi", VendorTool::rocm_smi},
                                                                       {"xpu-smi", VendorTool::xpu_smi},
                                                                       {"xpumcli", VendorTool::xpu_smi}};
  for (const auto& [name, tool] : kTools) {
    const bool called = words == name || (words.starts_with(name) && words[name.size()] == ' ');
    if (called) return ToolCommand{tool, line, text.substr(end + 1)};
  }
  return std::nullopt;
}

std::optional<Json> first_json(std::string_view text) {
  const std::size_t begin = text.find_first_of("{[");
  if (begin == std::string_view::npos || text.find_first_not_of(" \t\r\n\xEF\xBB\xBF") != begin) return std::nullopt;
  Json whole = Json::parse(text.substr(begin), nullptr, false);
  if (!whole.is_discarded()) return whole;
  // Prose may follow: the document then ends with the last bracket of its kind that makes it whole.
  const char close = text[begin] == '{' ? '}' : ']';
  const std::size_t end = text.find(std::string("\n") + close, begin);
  if (end == std::string_view::npos) return std::nullopt;
  whole = Json::parse(text.substr(begin, end + 2 - begin), nullptr, false);
  return whole.is_discarded() ? std::nullopt : std::optional(std::move(whole));
}

}  // namespace gpuwarden::capture
