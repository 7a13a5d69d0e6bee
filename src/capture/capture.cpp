// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/capture/capture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "capture/env_report.hpp"
#include "capture/identity.hpp"
#include "capture/lines.hpp"
#include "capture/machines.hpp"
#include "capture/merge.hpp"
#include "capture/messages.hpp"
#include "capture/monitor.hpp"
#include "capture/program_report.hpp"
#include "capture/slurm.hpp"
#include "capture/smi_csv.hpp"
#include "capture/smi_list.hpp"
#include "capture/smi_report.hpp"
#include "capture/smi_table.hpp"
#include "capture/system_output.hpp"
#include "capture/toolkit_output.hpp"
#include "capture/topology.hpp"
#include "capture/unread.hpp"
#include "capture/vendor_json.hpp"
#include "capture/worded_kinds.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/wrapped_text.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::capture {
namespace {

using Lines = std::span<const Line>;

constexpr std::pair<Kind, std::string_view> kKinds[] = {{Kind::gpuwarden_json, "gpuwarden snapshot"},
                                                        {Kind::smi_xml, "nvidia-smi -q -x"},
                                                        {Kind::smi_query, "nvidia-smi -q"},
                                                        {Kind::smi_table, "nvidia-smi"},
                                                        {Kind::smi_list, "nvidia-smi -L"},
                                                        {Kind::smi_csv, "nvidia-smi --query-gpu"},
                                                        {Kind::smi_apps_csv, "nvidia-smi --query-compute-apps"},
                                                        {Kind::topology, "nvidia-smi topo -m"},
                                                        {Kind::p2p, "nvidia-smi topo -p2p"},
                                                        {Kind::nvlink, "nvidia-smi nvlink -s"},
                                                        {Kind::dmon, "nvidia-smi dmon"},
                                                        {Kind::pmon, "nvidia-smi pmon"},
                                                        {Kind::smi_version, "nvidia-smi --version"},
                                                        {Kind::smi_error, "an error of nvidia-smi"},
                                                        {Kind::kernel_log, "kernel log"},
                                                        {Kind::rocm_smi, "rocm-smi"},
                                                        {Kind::amd_smi, "amd-smi"},
                                                        {Kind::xpu_smi, "xpu-smi"},
                                                        {Kind::collect_env, "PyTorch collect_env"},
                                                        {Kind::sglang_env, "sglang check_env"},
                                                        {Kind::ds_report, "ds_report"},
                                                        {Kind::library_env, "report of a Python library"},
                                                        {Kind::program, "what a program reports"},
                                                        {Kind::toolkit, "toolkit and packages"},
                                                        {Kind::system, "system tools"},
                                                        {Kind::slurm, "Slurm"},
                                                        {Kind::messages, "error messages"}};

/// Goes through the lines once; whoever recognises a line takes its part.
class Scanner {
 public:
  explicit Scanner(Lines lines) : lines_(lines) {}

  /// The lines of other machines: each stretch begins with a part of one, and ends with the next of the first machine.
  const std::vector<Stretch>& others() const { return others_; }

  Capture scan() {
    while (at_ < lines_.size()) {
      const std::size_t before = at_;
      if (!take_part()) ++at_;
      if (at_ == before) ++at_;
    }
    return std::move(capture_);
  }

 private:
  Lines rest() const { return lines_.subspan(at_); }
  const std::string& line() const { return lines_[at_].text; }

  void add(Kind kind, facts::Snapshot snapshot, std::size_t length) {
    if (is_another_machine(capture_.snapshot, snapshot)) {
      capture_.warnings.push_back(fmt::format("line {}: {} of another machine; only the first one's is read",
                                              lines_[at_].number, to_string(kind)));
      if (others_.empty() || others_.back().end != kToTheEnd) others_.push_back({lines_[at_].number, kToTheEnd});
    } else {
      // GPUs tell whose part it is; of others' lines without any that cannot be said.
      if (!snapshot.gpus.empty() && !others_.empty())
        others_.back().end = std::min(others_.back().end, lines_[at_].number);
      capture_.parts.push_back({kind, lines_[at_].number});
      merge(capture_.snapshot, std::move(snapshot));
    }
    at_ += std::max<std::size_t>(length, 1);
  }

  bool take_part() {
    if (line().empty()) return false;
    return take_report() || take_table() || take_list() || take_topology() || take_monitor() || take_versions() ||
           take_kernel_line() || take_failure() || take_csv();
  }

  /// A line at the left edge that another format knows ends an nvidia-smi -q log.
  static bool begins_another(Lines lines) {
    const std::string& text = lines[0].text;
    if (text.contains("NVSMI LOG") || is_table_header(text)) return true;
    if (text.empty() || text.contains(" : ")) return false;
    return is_list_line(text) || is_monitor_header(text) || is_kernel_line(text) || is_topology_header(lines) ||
           is_csv_header(text);
  }

  bool take_report() {
    if (!line().contains("NVSMI LOG")) return false;
    std::size_t length = 1;
    while (at_ + length < lines_.size() && !begins_another(lines_.subspan(at_ + length))) ++length;
    add(Kind::smi_query, snapshot_of_report(tree_of_text(lines_.subspan(at_ + 1, length - 1))), length);
    return true;
  }

  bool take_table() {
    if (!is_table_header(line())) return false;
    std::size_t length = 0;
    SmiTable table = read_smi_table(rest(), length);
    // The date stands above the table's border.
    for (std::size_t back = 1; back <= 2 && back <= at_; ++back) {
      const std::string& above = lines_[at_ - back].text;
      if (time_of(above)) table.timestamp = above;
    }
    add(Kind::smi_table, snapshot_of_table(table), length);
    return true;
  }

  bool take_list() {
    if (!is_list_line(line())) return false;
    std::size_t length = 0;
    const GpuList list = read_gpu_list(rest(), length);
    add(list.has_links ? Kind::nvlink : Kind::smi_list, snapshot_of_list(list), length);
    return true;
  }

  bool take_topology() {
    if (!is_topology_header(rest())) return false;
    std::size_t length = 0;
    const Topology topology = read_topology(rest(), length);
    add(topology.is_p2p ? Kind::p2p : Kind::topology, snapshot_of_topology(topology), length);
    return true;
  }

  bool take_monitor() {
    if (!is_monitor_header(line())) return false;
    std::size_t length = 0;
    const Monitor monitor = read_monitor(rest(), length);
    add(monitor.is_processes ? Kind::pmon : Kind::dmon, snapshot_of_monitor(monitor), length);
    return true;
  }

  bool take_versions() {
    if (!is_version_line(line())) return false;
    std::size_t length = 0;
    const VersionLines versions = read_version_lines(rest(), length);
    facts::Snapshot snapshot;
    snapshot.driver_version = versions.value({"KMD version", "DRIVER version"});
    snapshot.cuda_driver_version = versions.value({"CUDA UMD version", "CUDA version"});
    snapshot.nvml_version = versions.value({"NVML version"});
    add(Kind::smi_version, std::move(snapshot), length);
    return true;
  }

  bool take_kernel_line() {
    if (!is_kernel_line(line())) return false;
    // The whole rest is read at once: what belongs together may stand on several lines with others between.
    if (!kernel_log_) capture_.parts.push_back({Kind::kernel_log, lines_[at_].number});
    kernel_log_ = true;
    ++at_;
    return true;
  }

  bool take_failure() {
    const auto failure = smi_failure_of(line());
    if (!failure) return false;
    facts::Snapshot snapshot;
    if (failure->pci_bus_id) {
      facts::GpuRecord& record = snapshot.gpus.emplace_back();
      record.gpu.index = GpuIndex{0xFFFF};  // known by its bus id only
      record.gpu.pci_bus_id = *failure->pci_bus_id;
      record.gpu.name = "unknown GPU";
      note_trouble({failure->line}, record);
      if (is_usable(record)) set_not_answering(record, failure->line);
    } else {
      snapshot.problem = failure->error;
    }
    add(Kind::smi_error, std::move(snapshot), 1);
    return true;
  }

  bool take_csv() {
    const bool header = is_csv_header(line());
    if (!header && !(is_headless_row(line()) && capture_.parts.empty())) return false;
    std::size_t length = 0;
    const SmiCsv csv = read_smi_csv(rest(), length);
    // One word alone may stand in any list of fields; a column has values below it, and values are no field names.
    const std::string first = csv.rows.empty() ? "" : csv.rows[0][0];
    if (csv.columns.size() == 1 && (first.empty() || (first[0] >= 'a' && first[0] <= 'z'))) return false;
    add(csv.is_processes ? Kind::smi_apps_csv : Kind::smi_csv, snapshot_of_csv(csv), length);
    return true;
  }

  Lines lines_;
  std::size_t at_ = 0;
  bool kernel_log_ = false;
  std::vector<Stretch> others_;
  Capture capture_;
};

Kind kind_of(VendorTool tool) {
  return tool == VendorTool::rocm_smi ? Kind::rocm_smi : tool == VendorTool::amd_smi ? Kind::amd_smi : Kind::xpu_smi;
}

std::optional<Capture> capture_of_json(std::string_view text, std::optional<Error>& error) {
  const auto command = tool_command_of(text);
  const auto json = first_json(command ? command->output : text);
  const auto tool = json ? vendor_tool_of(*json) : std::nullopt;
  if (tool) return Capture{{{kind_of(*tool), 1}}, snapshot_of_vendor_json(*tool, *json)};
  if (command) {
    // The tool's own tables are recognised; only its JSON is read.
    Capture capture{{{kind_of(command->tool), 1}}, {}};
    capture.snapshot.source = to_string(kind_of(command->tool));
    return capture;
  }
  if (!json || !json->is_object() || !json->contains("schema") || !json->contains("gpus")) return std::nullopt;
  auto snapshot = facts::snapshot_from_json(*json);
  if (!snapshot) {
    error = snapshot.error();
    return std::nullopt;
  }
  supply_kinds(*snapshot);
  return Capture{{{Kind::gpuwarden_json, 1}}, std::move(*snapshot)};
}

/// Cuts XML logs out of a text, reads them, and leaves the rest for the line readers.
std::string take_xml(std::string_view text, Capture& capture) {
  std::string rest;
  for (;;) {
    const std::size_t begin = text.find("<nvidia_smi_log");
    if (begin == std::string_view::npos) return rest.append(text);
    const std::size_t close = text.find("</nvidia_smi_log>", begin);
    const std::size_t end = close == std::string_view::npos ? text.size() : close + 17;
    if (auto tree = tree_of_xml(text.substr(begin, end - begin))) {
      const auto line = 1 + std::ranges::count(text.substr(0, begin), '\n');
      auto snapshot = snapshot_of_report(*tree);
      if (is_another_machine(capture.snapshot, snapshot)) {
        capture.warnings.push_back(
            fmt::format("line {}: nvidia-smi -q -x of another machine; only the first one's is read", line));
      } else {
        capture.parts.push_back({Kind::smi_xml, static_cast<std::uint32_t>(line)});
        merge(capture.snapshot, std::move(snapshot));
      }
      if (close == std::string_view::npos)
        capture.warnings.push_back(
            fmt::format("line {}: nvidia-smi's XML is cut; what is missing is not judged", line));
    }
    rest.append(text.substr(0, begin));
    text.remove_prefix(end);
  }
}

/// PowerShell writes files in UTF-16: their ASCII part, which is all that these tools print. Empty for other texts.
std::string without_utf16(std::string_view text) {
  if (!text.starts_with("\xFF\xFE")) return "";
  std::string narrow;
  for (std::size_t i = 2; i + 1 < text.size(); i += 2) narrow += text[i + 1] == '\0' ? text[i] : '?';
  return narrow;
}

std::string origin_of(std::string_view name, const std::vector<Part>& parts) {
  std::vector<std::string> kinds;
  for (const Part& part : parts) {
    std::string kind(to_string(part.kind));
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  return fmt::format("{}: {}", name, join(kinds, ", "));
}

void append(Capture& whole, Capture part) {
  whole.warnings.insert(whole.warnings.end(), part.warnings.begin(), part.warnings.end());
  if (is_another_machine(whole.snapshot, part.snapshot)) {
    whole.warnings.push_back(fmt::format("line {}: {} of another machine; only the first one's is read",
                                         part.parts[0].line, to_string(part.parts[0].kind)));
    return;
  }
  whole.parts.insert(whole.parts.end(), part.parts.begin(), part.parts.end());
  auto problem = std::move(part.snapshot.problem);
  merge(whole.snapshot, std::move(part.snapshot));
  if (problem) whole.snapshot.problem = std::move(problem);
}

Kind kind_of_report(EnvTool tool) {
  switch (tool) {
    case EnvTool::sglang:
      return Kind::sglang_env;
    case EnvTool::deepspeed:
      return Kind::ds_report;
    case EnvTool::transformers:
    case EnvTool::jax:
      return Kind::library_env;
    case EnvTool::program:
      return Kind::program;
    case EnvTool::collect_env:
      break;
  }
  return Kind::collect_env;
}

/// The software around the GPUs: reports take their lines out first, since those look like other tools' lines.
void read_software(std::vector<Line>& lines, Capture& capture) {
  if (const auto slurm = take_slurm(lines)) {
    capture.parts.push_back({Kind::slurm, slurm->line});
    merge(capture.snapshot, snapshot_of_slurm(*slurm));
  }
  if (const auto report = take_env_report(lines)) {
    capture.parts.push_back({kind_of_report(report->tool), report->line});
    merge(capture.snapshot, snapshot_of_env_report(*report));
  }
  if (const auto output = read_toolkit_output(lines)) {
    capture.parts.push_back({Kind::toolkit, output->line});
    merge(capture.snapshot, snapshot_of_toolkit_output(*output));
  }
  facts::Snapshot system;
  if (const std::uint32_t line = read_system_output(lines, system.environment.emplace())) {
    capture.parts.push_back({Kind::system, line});
    merge(capture.snapshot, std::move(system));
  }
  facts::Environment messages;
  read_messages(lines, messages);
  if (messages.messages.empty() && messages.pythons.empty()) return;
  const std::uint32_t line = messages.messages.empty() ? 1 : messages.messages.front().line;
  capture.parts.push_back({Kind::messages, line});
  facts::Snapshot part;
  part.environment = std::move(messages);
  merge(capture.snapshot, std::move(part));
}

bool sees_cuda(const facts::Snapshot& snapshot) {
  return snapshot.environment &&
         std::ranges::any_of(snapshot.environment->pythons,
                             [](const facts::PythonEnvironment& python) { return python.cuda_available == true; });
}

/// Programs know the machine through CUDA: what the driver's own tools and reports tell of it stays.
void add_program(const EnvReport& report, Capture& capture) {
  facts::Snapshot part = snapshot_of_env_report(report);
  facts::Snapshot& whole = capture.snapshot;
  if (!whole.gpus.empty()) part.gpus.clear();
  if (whole.driver_version) {
    // Another number of the driver is of another system.
    const bool same = part.driver_version == whole.driver_version;
    if (part.driver_version && !same) part.environment->host.distribution.reset();
    part.driver_version.reset();
  }
  if (whole.cuda_driver_version) part.cuda_driver_version.reset();
  // Of two answers the one that says that CUDA is there: the other is of before, or of another node.
  if (sees_cuda(whole)) part.environment->messages.clear();
  capture.parts.push_back({Kind::program, report.line});
  merge(whole, std::move(part));
}

void read_programs(const std::vector<Line>& lines, Capture& capture) {
  const auto machines = read_python_answers(lines);
  const std::string host = capture.parts.empty() ? "" : host_at(lines, capture.parts.front().line);
  if (const auto report = read_program_report(lines)) add_program(*report, capture);
  if (machines.empty()) return;
  const PythonAnswers* own = answers_of_machine(machines, host);
  if (std::string others = answers_left_out(machines, own, host); !others.empty())
    capture.warnings.push_back(std::move(others));
  if (own != nullptr) add_program(own->report, capture);
}

void read_lines(std::vector<Line> lines, Capture& capture) {
  if (const auto second = second_report(lines)) {
    capture.warnings.push_back(fmt::format("line {}: {} of another machine; only the first one's is read",
                                           second->begin, to_string(Kind::collect_env)));
    lines = without(std::move(lines), {*second}, 0);
  }
  std::vector<Line> all = lines;
  Capture software;
  read_software(lines, software);
  Scanner scanner(lines);
  Capture tools = scanner.scan();
  if (!scanner.others().empty()) {
    const auto reported = std::ranges::find_if(software.parts, [](const Part& part) {
      return part.kind == Kind::collect_env || part.kind == Kind::sglang_env || part.kind == Kind::library_env;
    });
    lines = without(std::move(all), scanner.others(), reported == software.parts.end() ? 0 : reported->line);
    software = {};
    read_software(lines, software);
    std::vector<std::string> warnings = std::move(tools.warnings);
    tools = Scanner(lines).scan();
    // What is left of others was warned of before.
    const std::set<std::string> known(warnings.begin(), warnings.end());
    std::ranges::copy_if(tools.warnings, std::back_inserter(warnings),
                         [&](const std::string& one) { return !known.contains(one); });
    tools.warnings = std::move(warnings);
  }
  append(capture, std::move(tools));
  append(capture, std::move(software));
  read_programs(lines, capture);
}

/// Texts of hundreds of machines have one for each.
void limit_warnings(Capture& capture) {
  constexpr std::size_t kMost = 64;
  auto& warnings = capture.warnings;
  if (warnings.size() <= kMost) return;
  const std::size_t more = warnings.size() - kMost + 1;
  warnings.resize(kMost - 1);
  warnings.push_back(fmt::format("{} more warnings of this kind are left out", more));
}

}  // namespace

std::string_view to_string(Kind kind) {
  for (const auto& [known, name] : kKinds) {
    if (known == kind) return name;
  }
  return "?";
}

void add_capture(Capture& whole, Capture part) {
  const std::string origin = part.snapshot.origin;
  const std::size_t before = whole.parts.size();
  append(whole, std::move(part));
  if (whole.parts.size() > before && !origin.empty()) whole.snapshot.origin += "; " + origin;
}

Result<facts::Snapshot> snapshot_from_smi_xml(std::string_view xml) {
  GPUWARDEN_TRY(const Node tree, tree_of_xml(xml));
  return snapshot_of_report(tree);
}

Result<Capture> read_capture(std::string_view text, std::string_view name) {
  std::optional<Error> error;
  const std::string narrow = without_utf16(text);
  if (!narrow.empty()) text = narrow;
  auto capture = capture_of_json(text, error);
  if (error) return std::unexpected(std::move(*error));
  if (!capture) {
    capture.emplace();
    std::string rest = take_xml(text, *capture);
    const auto whole = unwrap(rest);
    const bool wrapped = whole && whole->sure;
    if (wrapped) rest = whole->text;
    std::vector<Line> lines = lines_of(rest);
    for (Line& line : lines) {
      if (wrapped) line.number = whole->numbers[line.number - 1];
    }
    read_lines(std::move(lines), *capture);
    const bool kernel =
        std::ranges::any_of(capture->parts, [](const Part& part) { return part.kind == Kind::kernel_log; });
    if (kernel) merge(capture->snapshot, read_kernel_log(rest));
  }
  limit_warnings(*capture);
  if (capture->parts.empty()) {
    return fail(
        ErrorCode::corrupt, fmt::format("{}: {}", name, describe_unread(text)),
        "known: nvidia-smi (plain, -q, -q -x, -L, CSV, topo, nvlink, dmon, pmon), kernel logs, rocm-smi, "
        "amd-smi and xpu-smi JSON, collect_env and similar reports, what programs print of their GPUs when they "
        "start, nvcc, Slurm, gpuwarden snapshot; of a log of a failure: gpuwarden diagnose FILE");
  }
  // What gpuwarden wrote comes back as it was.
  if (capture->parts[0].kind != Kind::gpuwarden_json) capture->snapshot.origin = origin_of(name, capture->parts);
  return std::move(*capture);
}

}  // namespace gpuwarden::capture
