// SPDX-License-Identifier: Apache-2.0
// A user's YAML over the tables. Each section of the file is one row of a table here: its keys, which of them name a
// row, and how the others are read.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/yaml/document.hpp"
#include "knowledge/overlay_fields.hpp"

namespace gpuwarden::knowledge {
namespace {

using Fields = OverlayFields;

constexpr std::size_t kMostRows = 5000;

/// How one section is read into one table.
template <class Row>
struct Section {
  const char* name;
  std::vector<std::string> keys;      ///< all but "source"
  std::vector<std::string> required;  ///< of a row that is not built in
  void (*identify)(Fields&, Row&);    ///< reads the keys that name a row
  bool (*same)(const Row&, const Row&);
  void (*read)(Fields&, Row&);  ///< the others
};

/// A changed row has two sources.
template <class Row>
void set_source(Fields& in, Row& row) {
  std::string_view own;
  in.text("source", own);
  const std::string source = own.empty() ? in.file().source : std::string(own);
  row.source = in.keep(row.source.empty() ? source : fmt::format("{} | over: {}", source, row.source));
}

template <class Row>
Result<void> lay_row(Fields& in, const Section<Row>& section, std::vector<Row>& table, std::vector<Row>& seen) {
  std::vector<std::string> keys = section.keys;
  keys.emplace_back("source");
  in.known(keys);
  Row row{};
  if (!in.error()) section.identify(in, row);
  const auto is_same = [&](const Row& other) { return section.same(row, other); };
  if (std::ranges::any_of(seen, is_same)) in.complain(section.required[0].c_str(), "names a row that already exists");
  const auto found = std::ranges::find_if(table, is_same);
  if (found != table.end()) {
    row = *found;
    section.identify(in, row);
  } else {
    in.needs(section.required);
  }
  section.read(in, row);
  set_source(in, row);
  if (in.error()) return std::unexpected(*in.error());
  seen.push_back(row);
  if (found != table.end()) {
    *found = row;
  } else {
    table.push_back(row);
  }
  return {};
}

template <class Row>
Result<void> lay(const YAML::Node& root, OverlayFile& file, const Section<Row>& section, std::vector<Row>& table) {
  const YAML::Node list = yaml::child(root, section.name);
  if (!list.IsDefined() || list.IsNull()) return {};
  if (!list.IsSequence() || list.size() > kMostRows)
    return std::unexpected(yaml::error_at(list, file.name, fmt::format("{} should be a list of rows", section.name),
                                          fmt::format("{}: [{{{}: ...}}]", section.name, section.required[0])));
  std::vector<Row> seen;
  int index = 0;
  for (const auto& entry : list) {
    Fields in(entry, file, fmt::format("{}[{}]", section.name, index++));
    GPUWARDEN_CHECK(lay_row(in, section, table, seen));
  }
  return {};
}

void read_toolkit(Fields& in, CudaToolkit& row) {
  in.month("released", row.released);
  in.version("min_driver", row.min_driver);
  in.version("min_driver_minor_version", row.min_driver_minor_version);
  in.integer("branch", row.branch, 1, 9999);
  in.version("max_gcc", row.max_gcc);
  in.version("max_clang", row.max_clang);
  in.integer("lowest", row.lowest, 10, 999);
  in.integer("highest", row.highest, 10, 999);
  in.version("ptx", row.ptx);
  if (row.lowest > row.highest) in.complain("lowest", "should not be above highest");
}

const Section<CudaToolkit> kToolkitSection{
    "toolkits",
    {"version", "released", "min_driver", "min_driver_minor_version", "branch", "max_gcc", "max_clang", "lowest",
     "highest", "ptx"},
    {"version", "min_driver", "lowest", "highest"},
    [](Fields& in, CudaToolkit& row) {
      in.version("version", row.version);
      in.text("version", row.name);
    },
    [](const CudaToolkit& a, const CudaToolkit& b) { return a.version == b.version; },
    read_toolkit};

const Section<Architecture> kArchitectureSection{
    "architectures",
    {"number", "name", "first_cuda", "last_cuda"},
    {"number", "name", "first_cuda"},
    [](Fields& in, Architecture& row) { in.integer("number", row.number, 10, 999); },
    [](const Architecture& a, const Architecture& b) { return a.number == b.number; },
    [](Fields& in, Architecture& row) {
      in.text("name", row.name);
      in.version("first_cuda", row.first_cuda);
      in.version("last_cuda", row.last_cuda);
    }};

const Section<DriverBranch> kBranchSection{
    "drivers",
    {"branch", "type", "first_release", "max_cuda", "end_of_life", "note"},
    {"branch", "max_cuda"},
    [](Fields& in, DriverBranch& row) { in.integer("branch", row.branch, 1, 9999); },
    [](const DriverBranch& a, const DriverBranch& b) { return a.branch == b.branch; },
    [](Fields& in, DriverBranch& row) {
      in.choice("type", row.type, {"LTSB", "PB", "NFB", "legacy"});
      in.month("first_release", row.first_release);
      in.version("max_cuda", row.max_cuda);
      in.month("end_of_life", row.end_of_life, true);
      in.text("note", row.note);
    }};

void read_torch(Fields& in, TorchBuild& row) {
  in.month("released", row.released);
  in.flag("default", row.is_default);
  in.joined("architectures", row.architectures);
  in.version("min_driver", row.min_driver);
  in.version("python_lowest", row.python_lowest);
  in.version("python_highest", row.python_highest);
  if (!row.build.empty() && !cuda_of_build(row.build)) in.complain("build", "should be a CUDA build such as cu130");
}

const Section<TorchBuild> kTorchSection{
    "torch",
    {"version", "build", "released", "default", "architectures", "min_driver", "python_lowest", "python_highest"},
    {"version", "build", "architectures", "min_driver"},
    [](Fields& in, TorchBuild& row) {
      in.version("version", row.torch);
      in.text("build", row.build);
    },
    [](const TorchBuild& a, const TorchBuild& b) { return a.torch == b.torch && a.build == b.build; },
    read_torch};

const Section<VllmRelease> kVllmSection{
    "vllm",
    {"first", "last", "torch", "cuda", "min_capability"},
    {"first", "torch", "cuda", "min_capability"},
    [](Fields& in, VllmRelease& row) {
      in.version("first", row.first);
      row.last = row.first;
      in.version("last", row.last);
      if (row.last < row.first) in.complain("last", "should not be before first");
    },
    [](const VllmRelease& a, const VllmRelease& b) { return a.first == b.first && a.last == b.last; },
    [](Fields& in, VllmRelease& row) {
      in.version("torch", row.torch);
      in.version("cuda", row.cuda);
      in.capability("min_capability", row.min_capability);
    }};

const Section<ComponentRelease> kComponentSection{"components",
                                                  {"component", "version", "needs", "capability", "driver_or_other"},
                                                  {"component", "version"},
                                                  [](Fields& in, ComponentRelease& row) {
                                                    in.text("component", row.component);
                                                    in.text("version", row.version);
                                                  },
                                                  [](const ComponentRelease& a, const ComponentRelease& b) {
                                                    return a.component == b.component && a.version == b.version;
                                                  },
                                                  [](Fields& in, ComponentRelease& row) {
                                                    in.text("needs", row.needs);
                                                    in.text("capability", row.capability);
                                                    in.text("driver_or_other", row.driver_or_other);
                                                  }};

const std::vector<std::string> kSeverities{"info", "warning", "error", "critical"};

const Section<XidCode> kXidSection{
    "xids",
    {"code", "mnemonic", "description", "severity", "cause", "action", "action_plain", "investigate"},
    {"code", "description", "severity"},
    [](Fields& in, XidCode& row) { in.integer("code", row.code, 1, 100000); },
    [](const XidCode& a, const XidCode& b) { return a.code == b.code; },
    [](Fields& in, XidCode& row) {
      in.text("mnemonic", row.mnemonic);
      in.text("description", row.description);
      in.choice("severity", row.severity, kSeverities);
      in.text("cause", row.cause);
      in.text("action", row.action);
      in.text("action_plain", row.action_plain);
      in.text("investigate", row.investigate);
    }};

void read_rates(Fields& in, GpuModel& row) {
  constexpr double kMost = 1e7;
  in.number("memory_gb", row.memory_gb, 0.1, kMost);
  in.number("memory_bandwidth_gb_s", row.memory_bandwidth_gb_s, 1, kMost);
  in.number("fp32_tflops", row.fp32_tflops, 0, kMost);
  in.number("tf32_dense_tflops", row.tf32_dense_tflops, 0, kMost);
  in.number("fp16_dense_tflops", row.fp16_dense_tflops, 0, kMost);
  in.number("bf16_dense_tflops", row.bf16_dense_tflops, 0, kMost);
  in.number("fp8_dense_tflops", row.fp8_dense_tflops, 0, kMost);
  in.number("int8_dense_tops", row.int8_dense_tops, 0, kMost);
  in.number("tdp_watts", row.tdp_watts, 0, kMost);
  in.number("nvlink_gb_s", row.nvlink_gb_s, 0, kMost);
  in.integer("multiprocessors", row.multiprocessors, 0, 100000);
  in.integer("cuda_cores", row.cuda_cores, 0, 10000000);
  in.integer("mig_max_instances", row.mig_max_instances, 0, 64);
}

OpenModule open_module_from(std::string_view word) {
  if (word == "required") return OpenModule::required;
  return word == "supported" ? OpenModule::supported : OpenModule::unsupported;
}

void read_model(Fields& in, GpuModel& row) {
  in.text("architecture", row.architecture);
  int capability = row.capability_major * 10 + row.capability_minor;
  in.capability("compute_capability", capability);
  row.capability_major = capability / 10;
  row.capability_minor = capability % 10;
  read_rates(in, row);
  in.joined("pci_device_ids", row.pci_device_ids);
  in.version("first_cuda", row.first_cuda);
  in.version("last_cuda", row.last_cuda);
  in.integer("first_driver_branch", row.first_driver_branch, 1, 9999);
  in.integer("last_driver_branch", row.last_driver_branch, 1, 9999);
  std::string_view module;
  in.choice("open_module", module, {"required", "supported", "unsupported"});
  if (!module.empty()) row.open_module = open_module_from(module);
}

const Section<GpuModel> kModelSection{"gpus",
                                      {"name",
                                       "architecture",
                                       "compute_capability",
                                       "memory_gb",
                                       "memory_bandwidth_gb_s",
                                       "multiprocessors",
                                       "cuda_cores",
                                       "fp32_tflops",
                                       "tf32_dense_tflops",
                                       "fp16_dense_tflops",
                                       "bf16_dense_tflops",
                                       "fp8_dense_tflops",
                                       "int8_dense_tops",
                                       "tdp_watts",
                                       "nvlink_gb_s",
                                       "mig_max_instances",
                                       "pci_device_ids",
                                       "first_cuda",
                                       "last_cuda",
                                       "first_driver_branch",
                                       "last_driver_branch",
                                       "open_module"},
                                      {"name", "architecture", "compute_capability", "memory_gb"},
                                      [](Fields& in, GpuModel& row) { in.text("name", row.name); },
                                      [](const GpuModel& a, const GpuModel& b) { return a.name == b.name; },
                                      read_model};

void read_rule_driver(Fields& in, SiteRule& row) {
  if (!in.has("driver")) return;
  Fields driver = in.section("driver");
  driver.known({"minimum", "recommended", "required", "optimal"});
  driver.version("minimum", row.driver_minimum);
  driver.version("recommended", row.driver_recommended);
  driver.version("required", row.driver_required);
  driver.version("optimal", row.driver_optimal);
  in.take_error(driver);
}

void read_rule_use(Fields& in, SiteRule& row) {
  if (!in.has("when")) return;
  Fields when = in.section("when");
  when.known({"gpus_unused", "memory_above", "utilization_below", "cpu_above"});
  when.flag("gpus_unused", row.gpus_unused);
  when.number("memory_above", row.memory_above, 0, 100);
  when.number("utilization_below", row.utilization_below, 0, 100);
  when.number("cpu_above", row.cpu_above, 0, 100);
  in.take_error(when);
}

/// A brace that opens a word which means nothing would stand in the user's face.
void check_placeholders(Fields& in, const char* key, std::string_view text) {
  const auto known = rule_placeholders();
  for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::string_view word = text.substr(at + 1, std::min(text.find('}', at), text.size()) - at - 1);
    if (std::ranges::find(known, word) != known.end()) continue;
    in.complain(key, fmt::format("names {{{}}}, which is not known", word),
                "known: " + join({known.begin(), known.end()}, ", "));
  }
}

void read_rule(Fields& in, SiteRule& row) {
  row.severity = row.severity.empty() ? "warning" : row.severity;
  in.choice("severity", row.severity, kSeverities);
  in.text("gpu", row.gpu);
  in.text("architecture", row.architecture);
  in.text("workload", row.workload);
  read_rule_driver(in, row);
  read_rule_use(in, row);
  in.text("message", row.message);
  in.text("fix", row.fix);
  check_placeholders(in, "message", row.message);
  check_placeholders(in, "fix", row.fix);
  const bool about_driver = row.driver_minimum || row.driver_recommended || row.driver_required || row.driver_optimal;
  const bool about_use = row.gpus_unused || row.memory_above || row.utilization_below || row.cpu_above;
  if (!about_driver && !about_use)
    in.complain("id", "says nothing about the driver or about use", "give it driver: {...} or when: {...}");
}

const Section<SiteRule> kRuleSection{
    "rules",
    {"id", "severity", "gpu", "architecture", "workload", "driver", "when", "message", "fix"},
    {"id"},
    [](Fields& in, SiteRule& row) { in.text("id", row.id); },
    [](const SiteRule& a, const SiteRule& b) { return a.id == b.id; },
    read_rule};

}  // namespace

Result<Knowledge> Knowledge::with_overlay(std::string_view yaml, std::string_view name) const {
  GPUWARDEN_TRY(const YAML::Node root, yaml::load(yaml, name));
  Knowledge result = *this;
  result.overlays_.emplace_back(name);
  if (!root.IsDefined() || root.IsNull()) return result;
  const auto texts = std::make_shared<std::deque<std::string>>();
  result.texts_.push_back(texts);
  OverlayFile file{name, std::string(name), *texts};
  Fields top(root, file, "the file");
  top.known({"source", "toolkits", "architectures", "drivers", "torch", "vllm", "components", "gpus", "xids", "rules"});
  std::string_view source;
  top.text("source", source);
  if (top.error()) return std::unexpected(*top.error());
  if (!source.empty()) file.source = fmt::format("{} ({})", source, name);
  GPUWARDEN_CHECK(lay(root, file, kToolkitSection, result.toolkits_));
  GPUWARDEN_CHECK(lay(root, file, kArchitectureSection, result.architectures_));
  GPUWARDEN_CHECK(lay(root, file, kBranchSection, result.branches_));
  GPUWARDEN_CHECK(lay(root, file, kTorchSection, result.torch_));
  GPUWARDEN_CHECK(lay(root, file, kVllmSection, result.vllm_));
  GPUWARDEN_CHECK(lay(root, file, kComponentSection, result.components_));
  GPUWARDEN_CHECK(lay(root, file, kModelSection, result.models_));
  GPUWARDEN_CHECK(lay(root, file, kXidSection, result.xids_));
  GPUWARDEN_CHECK(lay(root, file, kRuleSection, result.rules_));
  return result;
}

}  // namespace gpuwarden::knowledge
