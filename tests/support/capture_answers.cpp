// SPDX-License-Identifier: Apache-2.0
#include "support/capture_answers.hpp"

#include <algorithm>

#include "capture/env_report.hpp"
#include "capture/lines.hpp"
#include "capture/monitor.hpp"
#include "capture/slurm.hpp"
#include "capture/smi_csv.hpp"
#include "capture/smi_list.hpp"
#include "capture/smi_report.hpp"
#include "capture/smi_table.hpp"
#include "capture/toolkit_output.hpp"
#include "capture/topology.hpp"
#include "capture/vendor_json.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/capture/kernel_log.hpp"

namespace gpuwarden::testing {
namespace {

using namespace capture;
using Json = nlohmann::ordered_json;

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }
Json mib(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->value >> 20U) : Json(); }
template <class Quantity>
Json plain(const std::optional<Quantity>& value) {
  return value ? Json(value->value) : Json();
}
Json raw(const Node& node) { return node ? Json(node.text) : Json(); }

/// The lines from the first on that a format begins with.
template <class Predicate>
std::span<const Line> from_first(const std::vector<Line>& lines, Predicate starts) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::span<const Line> rest = std::span(lines).subspan(i);
    if (starts(rest)) return rest;
  }
  return {};
}

Json report_answer(const Node& report, const facts::Snapshot& snapshot, bool xml) {
  Json answer;
  answer["driver"] = text_or_null(snapshot.driver_version);
  answer["cuda"] = snapshot.cuda_driver_version ? Json(*snapshot.cuda_driver_version) : raw(cuda_version_of(report));
  answer["driver_raw"] = raw(driver_version_of(report));
  answer["cuda_raw"] = raw(cuda_version_of(report));
  const auto attached = parse_integer(report.at("attached_gpus").text);
  answer["attached_gpus"] = attached ? Json(*attached) : Json();
  answer["timestamp"] = raw(report.at("timestamp"));
  Json gpus = Json::array();
  std::size_t at = 0;
  for (const Node& node : report.children) {
    if (node.name != "gpu" || at >= snapshot.gpus.size()) continue;
    const auto& record = snapshot.gpus[at++];
    Json gpu;
    gpu["index"] = record.gpu.index.value;
    gpu["bus"] = record.gpu.pci_bus_id;
    gpu["name"] = record.gpu.name;
    gpu["uuid"] = record.gpu.uuid.value;
    gpu["memory_total_mib"] = mib(record.sample.memory_total);
    gpu["memory_used_mib"] = mib(record.sample.memory_used);
    gpu["temp"] = plain(record.sample.temperature);
    gpu["power"] = record.sample.power ? Json(static_cast<double>(record.sample.power->value) / 1000) : Json();
    const Node& draw = power_draw_of(node);
    const Node& any = node.first(
        {"gpu_power_readings/power_draw", "power_readings/power_draw", "gpu_power_readings/average_power_draw"});
    gpu["power_raw"] = raw(draw ? draw : any);
    gpu["util"] = plain(record.sample.utilization_gpu);
    gpu["mig"] = raw(node.first({"mig_mode/current_mig", "mig_mode/current"}));
    if (xml) gpu["mig_devices"] = record.mig_devices.size();
    gpu["processes"] = processes_of(node).size();
    gpus.push_back(std::move(gpu));
  }
  answer["gpus"] = std::move(gpus);
  return answer;
}

Json report_answers(std::string_view text, const facts::Snapshot& snapshot, bool xml) {
  if (!xml) {
    const auto lines = lines_of(text);
    const auto rest = from_first(lines, [](std::span<const Line> from) { return from[0].text.contains("NVSMI LOG"); });
    return rest.empty() ? Json() : report_answer(tree_of_text(rest), snapshot, false);
  }
  const auto tree = tree_of_xml(text.substr(std::min(text.find('<'), text.size())));
  return tree ? report_answer(*tree, snapshot, true) : Json();
}

Json table_gpu(const TableGpu& row, const facts::GpuRecord& record) {
  Json gpu;
  gpu["index"] = record.gpu.index.value;
  gpu["name"] = record.gpu.name;
  gpu["persistence_or_dm"] = row.persistence;
  gpu["bus"] = row.bus;
  gpu["disp"] = row.display;
  gpu["ecc_cell"] = row.ecc;
  gpu["temp"] = plain(record.sample.temperature);
  gpu["power_raw"] = text_or_null(row.power);
  gpu["left_cell"] = text_or_null(row.left);
  gpu["memory_used_mib"] = mib(record.sample.memory_used);
  gpu["memory_total_mib"] = mib(record.sample.memory_total);
  gpu["mem_cell"] = text_or_null(row.memory);
  gpu["util"] = plain(record.sample.utilization_gpu);
  gpu["util_cell"] = text_or_null(row.busy);
  return gpu;
}

Json table_answer(std::string_view text) {
  const auto lines = lines_of(text);
  const auto rest = from_first(lines, [](std::span<const Line> from) { return is_table_header(from[0].text); });
  if (rest.empty()) return {};
  std::size_t end = 0;
  const SmiTable table = read_smi_table(rest, end);
  const facts::Snapshot snapshot = snapshot_of_table(table);
  Json answer;
  answer["smi"] = table.smi_version;
  answer["driver"] = text_or_null(snapshot.driver_version);
  answer["cuda"] = text_or_null(snapshot.cuda_driver_version);
  answer["processes_text"] = text_or_null(table.processes_text);
  answer["gpus"] = Json::array();
  for (std::size_t i = 0; i < table.gpus.size(); ++i)
    answer["gpus"].push_back(table_gpu(table.gpus[i], snapshot.gpus[i]));
  answer["mig_devices"] = Json::array();
  for (const TableMig& row : table.mig_devices) {
    const auto [used, total] = sides_of(row.memory);
    answer["mig_devices"].push_back({{"gpu", row.gpu},
                                     {"gi", row.gpu_instance},
                                     {"ci", row.compute_instance},
                                     {"dev", row.device},
                                     {"used_mib", std::atoi(used.c_str())},
                                     {"total_mib", std::atoi(total.c_str())}});
  }
  answer["n_processes"] = table.processes.size();
  answer["processes"] = Json::array();
  for (const TableProcess& row : table.processes) {
    answer["processes"].push_back({{"gpu", row.gpu},
                                   {"gi", row.gpu_instance.empty() ? Json() : Json(row.gpu_instance)},
                                   {"ci", row.compute_instance.empty() ? Json() : Json(row.compute_instance)},
                                   {"pid", row.pid},
                                   {"type", row.type},
                                   {"name", row.name},
                                   {"mem", row.memory}});
  }
  return answer;
}

Json list_answer(std::string_view text) {
  const auto lines = lines_of(text);
  Json answer{{"gpus", Json::array()}, {"mig", Json::array()}};
  std::size_t speeds = 0;
  std::size_t inactive = 0;
  bool links = false;
  for (std::size_t at = 0; at < lines.size();) {
    std::size_t end = 0;
    const GpuList list = read_gpu_list(std::span(lines).subspan(at), end);
    links = links || list.has_links;
    for (const ListedGpu& gpu : list.gpus) {
      answer["gpus"].push_back({std::to_string(gpu.index), gpu.name, gpu.uuid});
      for (const ListedMig& mig : gpu.mig_devices)
        answer["mig"].push_back({mig.profile, std::to_string(mig.device), mig.uuid});
      for (const ListedLink& link : gpu.links) ++(link.gigabytes_per_second ? speeds : inactive);
    }
    at += std::max<std::size_t>(end, 1);
  }
  if (!links) return answer;
  return {{"gpus", answer["gpus"].size()}, {"links", speeds}, {"links_with_speed", speeds}, {"inactive", inactive}};
}

Json csv_answer(std::string_view text) {
  const auto lines = lines_of(text);
  const auto rest = from_first(
      lines, [](std::span<const Line> from) { return is_csv_header(from[0].text) || is_headless_row(from[0].text); });
  if (rest.empty()) return {};
  std::size_t end = 0;
  const SmiCsv csv = read_smi_csv(rest, end);
  Json answer{{"rows", csv.rows.size()}, {"header", csv.has_header}};
  if (csv.has_header) answer["columns"] = csv.columns.size();
  answer["header_first"] = Json::array();
  for (std::size_t i = 0; csv.has_header && i < std::min<std::size_t>(4, csv.columns.size()); ++i)
    answer["header_first"].push_back(csv.columns[i]);
  answer["gpus"] = Json::array();
  for (std::size_t row = 0; row < csv.rows.size(); ++row) {
    Json gpu;
    for (const std::string& column : csv.columns) {
      const std::string field(trim(std::string_view(column).substr(0, column.find('['))));
      const auto at = static_cast<std::size_t>(&column - csv.columns.data());
      gpu[field] = csv.rows[row][at];
    }
    // An index asks for fields by their usual names, whatever the header calls them.
    for (const char* field : {"index", "name", "uuid", "pci.bus_id", "driver_version"}) {
      if (!gpu.contains(field) && csv.column(field)) gpu[field] = std::string(csv.cell(row, field));
    }
    answer["gpus"].push_back(std::move(gpu));
  }
  return answer;
}

Json monitor_answer(std::string_view text) {
  const auto lines = lines_of(text);
  const auto rest = from_first(lines, [](std::span<const Line> from) { return is_monitor_header(from[0].text); });
  if (rest.empty()) return {};
  std::size_t end = 0;
  const Monitor monitor = read_monitor(rest, end);
  return {{"samples", monitor.rows.size()}, {"lines", monitor.rows.size()}};
}

Json topology_answer(std::string_view text) {
  const auto lines = lines_of(text);
  const auto rest = from_first(lines, [](std::span<const Line> from) { return is_topology_header(from); });
  if (rest.empty()) {
    for (const Line& line : lines) {
      if (const auto failure = smi_failure_of(line.text)) return {{"error_output", failure->line}};
    }
    return {};
  }
  std::size_t end = 0;
  const Topology topology = read_topology(rest, end);
  Json answer;
  if (topology.is_p2p) {
    answer["cmd"] = "nvidia-smi topo -p2p";
    answer["matrix"].push_back(topology.header);
    for (const TopologyRow& row : topology.rows) answer["matrix"].push_back(row.line);
    return answer;
  }
  const std::size_t gpus = topology.gpu_count();
  answer["n_gpus"] = gpus;
  answer["n_nics"] = topology.devices.size() - gpus;
  answer["gpu_pair_links"] = Json::object();
  for (std::size_t i = 0; i < gpus; ++i) {
    for (std::size_t j = i + 1; j < gpus; ++j) {
      const auto cell = topology.cell("GPU" + std::to_string(i), "GPU" + std::to_string(j));
      if (cell) answer["gpu_pair_links"][*cell] = answer["gpu_pair_links"].value(*cell, 0) + 1;
    }
  }
  answer["tail_columns"] = topology.tail;
  if (!topology.rows.empty()) {
    answer["gpu0_affinity_tokens"] = topology.rows[0].affinity;
    for (std::size_t i = 0; i < topology.rows[0].cells.size(); ++i)
      answer["GPU0_row"][topology.devices[i]] = topology.rows[0].cells[i];
  }
  for (const auto& [nic, name] : topology.nic_names) answer["nic_names"][nic] = name;
  return answer;
}

Json kernel_answer(std::string_view text) {
  const KernelLog log = read_kernel_log(text);
  Json answer{{"xids", Json::array()}};
  for (const auto& fault : log.faults) {
    answer[fault.kind + "s"].push_back(fault.code);
    if (fault.kind == "xid" && fault.pci_bus_id && !answer.contains("xid_bus")) answer["xid_bus"] = *fault.pci_bus_id;
    std::string_view what = fault.text;
    if (const std::size_t comma = what.find(", "); what.starts_with("pid=")) what = what.substr(comma + 2);
    if (what.ends_with('.')) what.remove_suffix(1);
    if (!answer.contains("what")) answer["what"] = std::string(what);
  }
  auto switches = log.nvswitches;
  std::ranges::sort(switches);
  if (!switches.empty()) answer["nvswitches"] = switches;
  if (!log.host.empty()) answer["node"] = log.host;
  if (log.client_version) answer["client"] = *log.client_version;
  if (log.module_version) answer["kernel_module"] = *log.module_version;
  if (!log.boards.empty()) answer["uuid"] = log.boards[0].uuid;
  if (!log.boards.empty() && log.boards[0].serial) answer["serial"] = *log.boards[0].serial;
  return answer;
}

Json vendor_answer(std::string_view text) {
  const auto command = tool_command_of(text);
  Json answer = Json::object();
  if (command) answer["cmd"] = std::string(command->command);
  const auto parsed = first_json(command ? command->output : text);
  if (!parsed) return answer;
  answer["valid_json"] = true;
  const auto tool = vendor_tool_of(*parsed);
  if (!tool) return answer;
  const facts::Snapshot snapshot = snapshot_of_vendor_json(*tool, *parsed);
  answer["cards"] = answer["gpus"] = snapshot.gpus.size();
  answer["driver"] = text_or_null(snapshot.driver_version);
  answer["device_list"] = Json::array();
  for (const auto& record : snapshot.gpus) {
    std::string bus = to_lower(record.gpu.pci_bus_id);
    if (bus.starts_with("0000")) bus = bus.substr(4);
    answer["device_list"].push_back({record.gpu.index.value, record.gpu.name, bus});
  }
  if (*tool != VendorTool::rocm_smi) return answer;
  // What the index asks of a card are its keys as printed; nlohmann's plain type sorts them, so the order is read anew.
  const Json ordered = Json::parse(text.substr(text.find('{')), nullptr, false);
  for (const auto& [key, card] : ordered.items()) {
    answer["keys"].push_back(key);
    if (!key.starts_with("card")) continue;
    answer[key] = card;
    if (!answer.contains("first")) answer["first"] = card;
  }
  return answer;
}

Json version_answer(std::string_view text) {
  const auto lines = lines_of(text);
  const auto rest = from_first(lines, [](std::span<const Line> from) { return is_version_line(from[0].text); });
  if (rest.empty()) return {};
  std::size_t end = 0;
  return {{"lines", read_version_lines(rest, end).lines}};
}

Json error_answer(std::string_view text) {
  for (const Line& line : lines_of(text)) {
    if (const auto failure = smi_failure_of(line.text))
      return {{"error", failure->line},
              {"message", failure->line},
              {"text", failure->line},
              {"error_output", failure->line}};
  }
  return {};
}

std::string first_word(std::string_view text) {
  const auto words = split_words(text);
  return words.empty() ? "" : std::string(words[0]);
}

Json cell_or_null(const EnvReport& report, std::string_view slot) {
  return report.cells.contains(slot) ? Json(std::string(report.cell(slot))) : Json();
}

Json environment_answer(std::string_view text) {
  auto lines = lines_of(text);
  const auto report = take_env_report(lines);
  if (!report) return {};
  Json answer;
  for (const char* slot : {"cuda_build", "rocm_build", "cuda_available", "cuda_runtime", "driver", "os", "cudnn", "hip",
                           "nvcc", "compute_capability"})
    answer[slot] = cell_or_null(*report, slot);
  // The index keeps the first 200 characters of it.
  if (answer["cudnn"].is_string()) answer["cudnn"] = answer["cudnn"].get<std::string>().substr(0, 200);
  const auto facts = snapshot_of_env_report(*report);
  const auto& python = facts.environment->pythons.at(0);
  const auto version_of = [&](const char* name) {
    const auto* package = facts::find_package(python, name);
    return package == nullptr ? Json() : Json(package->version);
  };
  answer["torch"] = version_of("torch").is_null() ? cell_or_null(*report, "torch") : version_of("torch");
  answer["python"] = first_word(report->cell("python"));
  answer["glibc"] = cell_or_null(*report, "libc");
  answer["vllm"] = cell_or_null(*report, "vllm");
  answer["sglang"] = version_of("sglang");
  answer["gpus"] = report->gpus;
  answer["has_topology"] = report->cells.contains("topology");
  return answer;
}

Json toolkit_answer(std::string_view text) {
  const auto output = read_toolkit_output(lines_of(text));
  if (!output) return {};
  Json answer;
  answer["release"] = output->nvcc_release;
  answer["V"] = output->nvcc_version;
  answer["version"] = output->driver;
  if (output->flavour) answer["open"] = *output->flavour == facts::ModuleFlavour::open;
  const std::size_t entries = std::max(output->architectures.size(), output->cached_libraries);
  answer["lines"] = entries > 0 ? entries : lines_of(text).size();
  return answer;
}

/// Words of a column in the order in which they first stand there; of columns of one title the first.
Json distinct(const SlurmText& text, std::initializer_list<std::string_view> names) {
  Json words = Json::array();
  for (const SlurmRecord& record : text.records) {
    const auto cell = std::ranges::find_if(
        record.cells, [&](const auto& entry) { return std::ranges::find(names, entry.first) != names.end(); });
    if (cell != record.cells.end() && std::ranges::find(words, Json(cell->second)) == words.end())
      words.push_back(cell->second);
  }
  return words;
}

/// A job's GRES, and what of it each line of its details says: the line is there without any, too.
Json places_of(const SlurmRecord& record) {
  Json places = Json::array();
  for (const auto& [key, value] : record.cells) {
    if (key == "JOB_GRES" || key == "GRES") places.push_back(value);
  }
  return places;
}

Json number_or_null(std::string_view text) {
  const auto number = parse_integer(text);
  return number ? Json(*number) : Json();
}

Json slurm_answer(std::string_view text) {
  auto lines = lines_of(text);
  const auto slurm = take_slurm(lines);
  if (!slurm) return {};
  Json answer{{"date", slurm->date}, {"TRES", Json::array()}, {"gres_column", distinct(*slurm, {"TRES_PER_NODE"})}};
  const facts::SlurmFacts facts = *snapshot_of_slurm(*slurm).environment->slurm;
  answer["states"] = distinct(*slurm, {"STATE", "ST"});
  for (const auto& partition : facts.partitions) answer["partitions"].push_back(partition.name);
  if (facts.cpus) {
    answer["allocated"] = facts.cpus->allocated;
    answer["idle"] = facts.cpus->idle;
    answer["other"] = facts.cpus->other;
    answer["total"] = facts.cpus->total;
  }
  for (const SlurmRecord& record : slurm->records) {
    const auto give = [&](const char* key, const Json& value) {
      if (!answer.contains(key) && !value.is_null() && value != "") answer[key] = value;
    };
    for (const char* key : {"NodeName", "State", "Gres", "JobState"}) give(key, std::string(record.first({key})));
    for (const char* key : {"JobId", "ArrayTaskId", "CPUTot"}) give(key, number_or_null(record.first({key})));
    give("gres", std::string(record.first({"Gres", "GRES"})));
    give("tres", std::string(record.first({"TRES_ALLOC", "AllocTRES"})));
    for (const char* key : {"Name", "Type", "File", "Count", "AutoDetect"}) {
      if (record.thing == SlurmThing::gres) give(key, std::string(record.first({key})));
    }
    if (record.thing != SlurmThing::job) continue;
    for (const auto& [key, value] : record.cells) {
      if (key == "TRES") answer["TRES"].push_back(value);
    }
    answer["gres_idx"] = places_of(record);
    if (const auto each = record.first({"TresPerNode"}); !each.empty()) answer["TresPerNode"] = {std::string(each)};
  }
  return answer;
}

/// Of a kind that nobody here knows: whatever any of the readers finds, the first that has a key.
Json any_answer(std::string_view text, const capture::Capture& capture) {
  Json answer = report_answers(text, capture.snapshot, false);
  for (const auto& other : {slurm_answer(text), kernel_answer(text), list_answer(text), table_answer(text),
                            environment_answer(text), toolkit_answer(text), version_answer(text)}) {
    if (!other.is_object()) continue;
    for (const auto& [key, value] : other.items()) {
      if (!answer.contains(key) || answer[key].empty()) answer[key] = value;
    }
  }
  return answer;
}

}  // namespace

Json capture_answers(const std::string& kind, std::string_view text, const std::string& name) {
  if (kind == "smi_table") return table_answer(text);
  if (kind == "collect_env" || kind == "sglang_env") return environment_answer(text);
  if (kind == "toolkit") return toolkit_answer(text);
  if (kind == "slurm") return slurm_answer(text);
  if (kind == "smi_L" || kind == "smi_nvlink") return list_answer(text);
  if (kind == "smi_csv" || kind == "smi_csv_apps") return csv_answer(text);
  if (kind == "smi_dmon" || kind == "smi_pmon") return monitor_answer(text);
  if (kind == "topo" || kind == "topo_p2p") return topology_answer(text);
  if (kind == "kernel_log") return kernel_answer(text);
  if (kind == "rocm_json" || kind == "amd_smi" || kind == "xpu_smi") return vendor_answer(text);
  if (kind == "smi_version") return version_answer(text);
  if (kind == "smi_error") return error_answer(text);
  // The facts come through the front door: recognised by content.
  const auto capture = read_capture(text, name);
  if (!capture) return {};
  if (kind == "smi_xml" || kind == "smi_q") return report_answers(text, capture->snapshot, kind == "smi_xml");
  return any_answer(text, *capture);
}

}  // namespace gpuwarden::testing
