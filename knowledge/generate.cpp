// SPDX-License-Identifier: Apache-2.0
// Build-time tool: checks the rows of knowledge/*.csv and writes them as constexpr tables.
//   generate KIND INPUT.csv OUTPUT.inc      (kWriters names the kinds)
// A row that is wrong (bad number, no source, a name twice) stops the build with file and line.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using Row = std::map<std::string, std::string>;

std::string g_file;
int g_line = 0;

[[noreturn]] void stop(const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", g_file.c_str(), g_line, what.c_str());
  std::exit(1);
}

/// Splits one CSV line (RFC 4180 quoting, no line breaks inside fields).
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted) stop("a quote is not closed");
  return fields;
}

std::string literal(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

/// The field as a number; an empty one is 0 ("not known").
std::string number(const Row& row, const std::string& column) {
  const std::string& text = row.at(column);
  if (text.empty() || text == "no") return "0";
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || value < 0) stop("column " + column + ": '" + text + "' is not a number");
  return text;
}

/// The leading whole number of a field such as "7" or "7 (GI)"; 0 for "no" and empty.
std::string leading_integer(const Row& row, const std::string& column) {
  return std::to_string(std::strtol(row.at(column).c_str(), nullptr, 10));
}

/// "12.4.131" as the initializer of a Version; "" is {} ("not known").
std::string version(const Row& row, const std::string& column) {
  const std::string& text = row.at(column);
  std::string result = "{";
  int parts = 0;
  for (std::size_t at = 0; at < text.size() && parts < 4; ++parts) {
    char* end = nullptr;
    const long part = std::strtol(text.c_str() + at, &end, 10);
    const std::size_t next = static_cast<std::size_t>(end - text.c_str());
    if (next == at || part < 0) stop("column " + column + ": '" + text + "' is not a version");
    result += (parts > 0 ? "," : "") + std::to_string(part);
    if (next < text.size() && text[next] != '.') stop("column " + column + ": '" + text + "' is not a version");
    at = next + 1;
  }
  return result + "}";
}

/// The first version in a field such as "13.0 (sm_101 in 12.8)".
std::string leading_version(const Row& row, const std::string& column) {
  Row first{{column, row.at(column).substr(0, row.at(column).find(' '))}};
  if (first[column].find_first_not_of("0123456789.") != std::string::npos) first[column].clear();
  return version(first, column);
}

std::string text(const Row& row, const std::string& column) { return literal(row.at(column)); }

std::string needed(const Row& row, const std::string& column) {
  if (row.at(column).empty()) stop("column " + column + " is empty");
  return text(row, column);
}

std::string month(const Row& row, const std::string& column) {
  const std::string& value = row.at(column);
  const bool good = value.size() == 7 && value[4] == '-' && value >= "2005-01" && value < "2100-00";
  if (!value.empty() && value != "past" && !good) stop("column " + column + ": '" + value + "' is not YYYY-MM");
  return literal(value);
}

/// The month in which a row was last held against its source.
std::string as_of(const Row& row) {
  if (row.at("as_of").empty()) stop("column as_of is empty");
  return month(row, "as_of");
}

/// "8.6" as 86.
std::string capability(const Row& row, const std::string& column) {
  const std::string& value = row.at(column);
  const std::size_t dot = value.find('.');
  if (dot == std::string::npos || value.find_first_not_of("0123456789.") != std::string::npos ||
      dot + 2 != value.size())
    stop("column " + column + ": '" + value + "' is not MAJOR.MINOR");
  return value.substr(0, dot) + value.substr(dot + 1);
}

void once(std::set<std::string>& seen, const std::string& key) {
  if (!seen.insert(key).second) stop("'" + key + "' is there twice");
}

std::string open_module(const Row& row) {
  const std::string& value = row.at("open_kernel_module");
  if (value == "required") return "OpenModule::required";
  if (value.starts_with("not supported")) return "OpenModule::unsupported";
  if (value.starts_with("supported")) return "OpenModule::supported";
  return "OpenModule::unknown";
}

void write_model(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("nvml_name"));
  const std::string both = capability(row, "compute_capability");
  out << "{" << needed(row, "nvml_name") << "," << needed(row, "architecture") << "," << both << "/10," << both
      << "%10," << number(row, "memory_gb_marketing") << "," << number(row, "mem_bw_gb_s") << ","
      << number(row, "sm_count") << "," << number(row, "cuda_cores") << "," << number(row, "fp32_tflops") << ","
      << number(row, "bf16_dense_tflops") << "," << number(row, "fp16_dense_tflops") << "," << number(row, "tdp_w")
      << "," << number(row, "nvlink_gb_s_bidir_total") << "," << leading_integer(row, "mig_max_instances") << ","
      << text(row, "source") << "," << number(row, "tf32_dense_tflops") << "," << number(row, "fp8_dense_tflops") << ","
      << number(row, "int8_dense_tops") << "," << text(row, "pci_device_ids") << ","
      << leading_version(row, "first_cuda") << "," << leading_version(row, "last_cuda") << ","
      << leading_integer(row, "first_driver_branch_for_arch") << "," << leading_integer(row, "last_driver_branch")
      << "," << open_module(row) << "},\n";
}

void write_toolkit(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("version"));
  out << "{" << needed(row, "version") << "," << version(row, "version") << "," << month(row, "released") << ","
      << version(row, "min_driver") << "," << version(row, "min_driver_minor_version") << ","
      << leading_integer(row, "branch") << "," << version(row, "max_gcc") << "," << version(row, "max_clang") << ","
      << number(row, "lowest") << "," << number(row, "highest") << "," << version(row, "ptx") << ","
      << text(row, "source") << "},\n";
}

void write_architecture(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("architecture"));
  out << "{" << number(row, "architecture") << "," << needed(row, "name") << "," << version(row, "first_cuda") << ","
      << version(row, "last_cuda") << "," << text(row, "source") << "},\n";
}

void write_branch(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("branch"));
  out << "{" << number(row, "branch") << "," << text(row, "type") << "," << month(row, "first_release") << ","
      << version(row, "max_cuda") << "," << month(row, "end_of_life") << "," << text(row, "note") << ","
      << text(row, "source") << "," << as_of(row) << "},\n";
}

void write_torch(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("torch") + "+" + row.at("build"));
  if (!row.at("build").starts_with("cu")) stop("'" + row.at("build") + "' is no CUDA build");
  out << "{" << version(row, "torch") << "," << month(row, "released") << "," << needed(row, "build") << ","
      << (row.at("default") == "yes" ? "true" : "false") << "," << needed(row, "architectures") << ","
      << version(row, "min_driver") << "," << version(row, "python_lowest") << "," << version(row, "python_highest")
      << "," << text(row, "source") << "," << as_of(row) << "},\n";
}

void write_vllm(std::ofstream& out, const Row& row) {
  out << "{" << version(row, "first") << "," << version(row, "last") << "," << version(row, "torch") << ","
      << version(row, "cuda") << "," << capability(row, "min_capability") << "," << text(row, "source") << ","
      << version(row, "other_cuda") << "," << as_of(row) << "},\n";
}

void write_package(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("package") + " " + row.at("first"));
  const auto bound = [&](const std::string& column) {
    return row.at(column).empty() ? std::string("0") : capability(row, column);
  };
  out << "{" << needed(row, "package") << "," << version(row, "first") << "," << version(row, "last") << ","
      << bound("min_capability") << "," << version(row, "min_driver") << "," << version(row, "cuda") << ","
      << version(row, "torch") << "," << needed(row, "install") << "," << text(row, "note") << ","
      << text(row, "source") << "," << as_of(row) << "," << bound("max_capability") << "},\n";
}

void write_torch_companion(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("package") + " " + row.at("version"));
  as_of(row);
  version(row, "torch");
  if (!row.at("or_newer").empty() && row.at("or_newer") != "yes") stop("column or_newer: yes or nothing");
  out << "{" << needed(row, "package") << "," << needed(row, "version") << "," << needed(row, "torch") << ","
      << (row.at("or_newer") == "yes" ? "true" : "false") << "," << needed(row, "source") << "},\n";
}

void write_torch_triton(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("torch"));
  as_of(row);
  out << "{" << version(row, "torch") << "," << needed(row, "triton") << "," << needed(row, "source") << "},\n";
}

void write_bitsandbytes(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("first"));
  as_of(row);
  if (row.at("takes") != "exact" && row.at("takes") != "major") stop("column takes: exact or major");
  out << "{" << version(row, "first") << "," << version(row, "last") << "," << needed(row, "cuda") << ","
      << (row.at("takes") == "major" ? "true" : "false") << "," << version(row, "torch") << "," << needed(row, "source")
      << "},\n";
}

void write_component(std::ofstream& out, const Row& row) {
  out << "{" << needed(row, "component") << "," << needed(row, "version") << "," << text(row, "needs") << ","
      << text(row, "capability") << "," << text(row, "driver_or_other") << "," << text(row, "source") << "},\n";
}

void write_xid(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  static const std::set<std::string> severities{"info", "warning", "error", "critical"};
  once(seen, row.at("xid"));
  if (!severities.contains(row.at("severity"))) stop("severity '" + row.at("severity") + "' is not known");
  out << "{" << number(row, "xid") << "," << text(row, "mnemonic") << "," << text(row, "description") << ","
      << text(row, "severity") << "," << text(row, "cause") << "," << text(row, "action") << ","
      << text(row, "action_plain") << "," << text(row, "investigate") << "," << text(row, "source") << "},\n";
}

void write_variable(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  static const std::set<std::string> software{"nccl",   "cuda",        "pytorch", "vllm",       "container", "system",
                                              "triton", "huggingface", "jax",     "tensorflow", "ollama",    "slurm",
                                              "rocm",   "torchrun",    "ucx",     "gpuwarden"};
  once(seen, row.at("name"));
  if (!software.contains(row.at("software"))) stop("software '" + row.at("software") + "' is not known");
  const char* between = "{";
  for (const char* column : {"name", "software", "values", "default", "meaning", "when", "source"}) {
    out << between << needed(row, column);
    between = ",";
  }
  out << "},\n";
}

void write_catalog(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("name"));
  const std::string& config = row.at("config");
  if (!config.starts_with('{') || !config.ends_with('}')) stop("column config is no JSON object");
  const std::string parameters = number(row, "parameters");
  out << "{" << needed(row, "name") << "," << text(row, "aliases") << "," << needed(row, "family") << ","
      << literal(config) << "," << parameters << (parameters == "0" ? "" : "U") << "," << text(row, "source") << "},\n";
}

std::string hexadecimal(const Row& row, const std::string& column) {
  const std::string& text = row.at(column);
  if (text.empty()) return "0";
  if (text.size() != 4 || text.find_first_not_of("0123456789ABCDEF") != std::string::npos) {
    stop("column " + column + ": '" + text + "' is not four hexadecimal digits");
  }
  return "0x" + text;
}

void write_pci(std::ofstream& out, const Row& row) {
  static std::string last;
  const std::string key = row.at("device") + row.at("subsystem_vendor") + row.at("subsystem_device");
  if (key <= last) stop("rows are not sorted by device and subsystem, or there twice");
  last = key;
  if (row.at("device").empty() || row.at("name").empty()) stop("device or name is empty");
  out << "{" << hexadecimal(row, "device") << "," << hexadecimal(row, "subsystem_vendor") << ","
      << hexadecimal(row, "subsystem_device") << "," << literal(row.at("name")) << "},\n";
}

void write_planning_figure(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("name"));
  out << "{" << needed(row, "name") << "," << needed(row, "unit") << "," << number(row, "low") << ","
      << number(row, "value") << "," << number(row, "high") << "," << needed(row, "chosen_on") << ","
      << needed(row, "source") << "},\n";
}

void write_usable(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("name"));
  if (number(row, "gib") == "0") stop("column gib: a GPU without memory");
  out << "{" << needed(row, "name") << "," << number(row, "gib") << "," << needed(row, "source") << "},\n";
}

void write_loss(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("kernel") + " " + row.at("framework") + " " + row.at("when"));
  out << "{" << needed(row, "kernel") << "," << needed(row, "framework") << "," << needed(row, "when") << ","
      << number(row, "per_logit") << "," << number(row, "per_hidden") << "," << needed(row, "chosen_on") << ","
      << needed(row, "source") << "},\n";
}

void write_use(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("names"));
  out << "{" << needed(row, "names") << "," << needed(row, "good_for") << "," << text(row, "derived_from") << ","
      << needed(row, "source") << "," << as_of(row) << "},\n";
}

void write_distribution(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  static const std::set<std::string> managers{"apt", "dnf", "zypper", "tdnf"};
  once(seen, row.at("id"));
  if (!managers.contains(row.at("manager"))) stop("manager '" + row.at("manager") + "' is not known");
  if (row.at("numbered") != "whole" && row.at("numbered") != "major")
    stop("column numbered is neither whole nor major");
  if (row.at("oldest").empty() != row.at("oldest_name").empty()) stop("oldest and oldest_name go together");
  out << "{" << needed(row, "id") << "," << needed(row, "manager") << ","
      << (row.at("numbered") == "whole" ? "true" : "false") << "," << version(row, "oldest") << ","
      << text(row, "oldest_name") << "," << version(row, "newest") << "," << needed(row, "example") << ","
      << needed(row, "folders") << "," << text(row, "source") << "," << as_of(row) << "},\n";
}

void write_gpu_name(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("name"));
  as_of(row);
  out << "{" << needed(row, "name") << "," << needed(row, "model") << "," << needed(row, "source") << "},\n";
}

void write_other_maker(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("words"));
  as_of(row);
  out << "{" << needed(row, "words") << "," << needed(row, "maker") << "," << needed(row, "source") << "},\n";
}

void write_board(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("word"));
  as_of(row);
  out << "{" << needed(row, "word") << "," << needed(row, "processor") << "," << text(row, "builds") << ","
      << needed(row, "source") << "," << (row.at("jetson") == "yes" ? "true" : "false") << "},\n";
}

void write_product(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("words"));
  as_of(row);
  if (number(row, "architecture") == "0") stop("column architecture is empty");
  out << "{" << needed(row, "words") << "," << number(row, "architecture") << "," << needed(row, "source") << "},\n";
}

/// "525.147.05;535.86.05", ascending.
void write_first_drivers(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("name"));
  as_of(row);
  const std::string& releases = row.at("releases");
  int last = 0;
  for (std::size_t at = 0; at != std::string::npos; at = releases.find(';', at)) {
    if (at != 0) ++at;
    const int branch = std::atoi(releases.c_str() + at);
    if (branch <= last) stop("column releases: '" + releases + "' does not name ascending branches");
    last = branch;
  }
  out << "{" << needed(row, "name") << "," << literal(releases) << "," << needed(row, "source") << "},\n";
}

void write_compat(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("cuda"));
  as_of(row);
  if (row.at("branches").find_first_not_of("0123456789;") != std::string::npos) stop("column branches: not numbers");
  out << "{" << version(row, "cuda") << "," << needed(row, "branches") << "," << needed(row, "source") << "},\n";
}

void write_compat_gpus(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  once(seen, row.at("word"));
  as_of(row);
  const std::string& serves = row.at("serves");
  if (serves != "no" && serves != "certified servers only") stop("column serves: '" + serves + "' is not known");
  out << "{" << needed(row, "word") << ",CompatServes::" << (serves == "no" ? "no" : "certified_servers_only") << ","
      << needed(row, "source") << "},\n";
}

const std::map<std::string, void (*)(std::ofstream&, const Row&)> kWriters{{"models", write_model},
                                                                           {"pci", write_pci},
                                                                           {"toolkits", write_toolkit},
                                                                           {"architectures", write_architecture},
                                                                           {"branches", write_branch},
                                                                           {"torch", write_torch},
                                                                           {"vllm", write_vllm},
                                                                           {"components", write_component},
                                                                           {"xid", write_xid},
                                                                           {"torch_companions", write_torch_companion},
                                                                           {"torch_triton", write_torch_triton},
                                                                           {"bitsandbytes", write_bitsandbytes},
                                                                           {"xid_before_ampere", write_xid},
                                                                           {"variables", write_variable},
                                                                           {"catalog", write_catalog},
                                                                           {"planning", write_planning_figure},
                                                                           {"usable", write_usable},
                                                                           {"loss", write_loss},
                                                                           {"packages", write_package},
                                                                           {"torch_aarch64", write_torch},
                                                                           {"uses", write_use},
                                                                           {"distributions", write_distribution},
                                                                           {"gpu_names", write_gpu_name},
                                                                           {"other_makers", write_other_maker},
                                                                           {"gpu_boards", write_board},
                                                                           {"gpu_products", write_product},
                                                                           {"gpu_first_drivers", write_first_drivers},
                                                                           {"cuda_compat", write_compat},
                                                                           {"cuda_compat_gpus", write_compat_gpus}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto writer = kWriters.find(argv[1]);
  if (writer == kWriters.end()) return 2;
  g_file = argv[2];
  std::ifstream in(argv[2]);
  std::ofstream out(argv[3]);
  if (!in || !out) stop("cannot open it, or " + std::string(argv[3]));
  std::vector<std::string> columns;
  for (std::string line; std::getline(in, line);) {
    ++g_line;
    const auto fields = fields_of(line);
    if (columns.empty()) {
      columns = fields;
      continue;
    }
    if (fields.size() != columns.size()) stop("has " + std::to_string(fields.size()) + " fields");
    Row row;
    for (std::size_t i = 0; i < fields.size(); ++i) row[columns[i]] = fields[i];
    if (row["source"].empty()) stop("a row needs a source");
    writer->second(out, row);
  }
  return g_line > 1 ? 0 : 1;
}
