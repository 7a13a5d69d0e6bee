// SPDX-License-Identifier: Apache-2.0
// Build-time tool: checks the rows of knowledge/*.csv and writes them as constexpr tables.
//   generate models|pci INPUT.csv OUTPUT.inc
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

void write_model(std::ofstream& out, const Row& row) {
  static std::set<std::string> seen;
  const std::string& name = row.at("nvml_name");
  if (name.empty() || !seen.insert(name).second) stop("the name '" + name + "' is empty or there twice");
  const std::string& capability = row.at("compute_capability");
  const std::size_t dot = capability.find('.');
  if (dot == std::string::npos) stop("compute_capability '" + capability + "' is not MAJOR.MINOR");
  out << "{" << literal(name) << "," << literal(row.at("architecture")) << "," << capability.substr(0, dot) << ","
      << capability.substr(dot + 1) << "," << number(row, "memory_gb_marketing") << "," << number(row, "mem_bw_gb_s")
      << "," << number(row, "sm_count") << "," << number(row, "cuda_cores") << "," << number(row, "fp32_tflops") << ","
      << number(row, "bf16_dense_tflops") << "," << number(row, "fp16_dense_tflops") << "," << number(row, "tdp_w")
      << "," << number(row, "nvlink_gb_s_bidir_total") << "," << leading_integer(row, "mig_max_instances") << ","
      << literal(row.at("source")) << "},\n";
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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const bool models = std::string(argv[1]) == "models";
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
    models ? write_model(out, row) : write_pci(out, row);
  }
  return g_line > 1 ? 0 : 1;
}
