// SPDX-License-Identifier: Apache-2.0
#include "capture/smi_table.hpp"

#include <algorithm>

#include "capture/cells.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

using Cells = std::vector<std::string_view>;

/// The line from the table's edge on: logs put times, ranks and container names before it.
std::string_view without_prefix(std::string_view line) {
  return trim(line.substr(std::min(line.find_first_of("|+"), line.size())));
}

/// The parts between a line's bars; empty where the line is no row. A row needs its closing bar.
Cells bar_cells_of(std::string_view line) {
  const std::string_view text = without_prefix(line);
  if (text.size() < 3 || text.front() != '|' || text.back() != '|') return {};
  return split(text.substr(1, text.size() - 2), '|');
}

bool is_border(std::string_view line) {
  const std::string_view text = without_prefix(line);
  return text.size() > 3 && text.find_first_not_of("+-=| ") == std::string_view::npos &&
         text.find_first_of("-=") != std::string_view::npos;
}

std::string after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string_view::npos) return "";
  const auto words = split_words(line.substr(at + label.size()));
  return words.empty() ? "" : std::string(words[0]);
}

std::string single_spaced(std::string_view text) {
  std::string result;
  for (const std::string_view word : split_words(text)) result.append(result.empty() ? "" : " ").append(word);
  return result;
}

std::optional<std::uint32_t> small_number(std::string_view text) {
  const auto number = parse_integer(trim(text));
  return number && *number >= 0 && *number < 100000 ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

bool looks_like_bus(std::string_view text) { return bus_id_of(text).has_value(); }

/// "|   0  Tesla T4            On  | 00000000:00:1E.0 Off |                    0 |"
std::optional<TableGpu> identity_row(const Cells& cells) {
  if (cells.size() != 3) return std::nullopt;
  const auto left = split_words(cells[0]);
  const auto middle = split_words(cells[1]);
  // A Jetson's GPU is part of the chip and on no bus: "| N/A              N/A |".
  const bool on_chip = middle.size() == 2 && middle[0] == "N/A" && middle[1] == "N/A";
  if (left.size() < 2 || middle.empty() || (!on_chip && !looks_like_bus(middle[0]))) return std::nullopt;
  const auto index = small_number(left[0]);
  if (!index) return std::nullopt;
  TableGpu gpu;
  gpu.index = *index;
  if (!on_chip) gpu.bus = middle[0];
  if (middle.size() > 1) gpu.display = middle[1];
  gpu.ecc = trim(cells[2]);
  // The name may hold words that look like anything; the last word is the persistence or driver model cell.
  std::string_view rest = trim(cells[0]);
  rest = trim(rest.substr(left[0].size()));
  if (left.size() > 2) {
    gpu.persistence = left.back();
    rest.remove_suffix(left.back().size());
  }
  gpu.name = trim(rest);
  return gpu;
}

/// "| N/A   38C    P0    55W / 300W |      0MiB / 32510MiB |      5%      Default |"
bool reading_row(const Cells& cells, TableGpu& gpu) {
  if (cells.size() != 3 || gpu.left) return false;
  const std::string_view left = trim(cells[0]);
  const auto words = split_words(left);
  if (words.empty()) return false;
  gpu.left = std::string(left);
  gpu.memory = std::string(trim(cells[1]));
  gpu.busy = std::string(trim(cells[2]));
  gpu.fan = std::string(words[0]);
  if (words.size() > 1) gpu.temperature = std::string(words[1]);
  if (words.size() > 2) gpu.performance = std::string(words[2]);
  if (words.size() > 3) gpu.power = single_spaced(left.substr(static_cast<std::size_t>(words[3].data() - left.data())));
  gpu.failed = words.size() > 1 &&
               std::ranges::all_of(
                   words, [](std::string_view word) { return word == "ERR!" || word == "/" || word == "N/A"; }) &&
               words[1] == "ERR!";
  return true;
}

/// "|  0    2   0   0  |           11091MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |"
std::optional<TableMig> mig_row(const Cells& cells) {
  if (cells.size() < 3) return std::nullopt;
  const auto ids = split_words(cells[0]);
  if (ids.size() != 4) return std::nullopt;
  TableMig mig;
  std::uint32_t* const targets[] = {&mig.gpu, &mig.gpu_instance, &mig.compute_instance, &mig.device};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto number = small_number(ids[i]);
    if (!number) return std::nullopt;
    *targets[i] = *number;
  }
  mig.memory = single_spaced(cells[1]);
  const auto engines = split_words(cells[2]);
  if (!engines.empty()) mig.multiprocessors = small_number(engines[0]);
  return mig;
}

/// "    0   N/A  N/A      1720      G   /usr/bin/gnome-shell    173MiB", in tables before MIG without the two ids.
std::optional<TableProcess> process_row(std::string_view cell) {
  const auto words = split_words(cell);
  if (words.size() < 4) return std::nullopt;
  TableProcess process;
  const auto gpu = small_number(words[0]);
  if (!gpu) return std::nullopt;
  process.gpu = *gpu;
  const auto is_type = [](std::string_view word) {
    return !word.empty() && word.find_first_not_of("CGM+") == std::string_view::npos;
  };
  const bool with_instances = words.size() > 4 && is_type(words[4]) && (words[1] == "N/A" || small_number(words[1]));
  const std::size_t pid_at = with_instances ? 3 : 1;
  if (words.size() <= pid_at + 1 || !is_type(words[pid_at + 1])) return std::nullopt;
  if (with_instances) {
    process.gpu_instance = words[1];
    process.compute_instance = words[2];
  }
  const auto pid = parse_integer(words[pid_at]);
  if (!pid || *pid < 0 || *pid > INT32_MAX) return std::nullopt;
  process.pid = static_cast<std::int32_t>(*pid);
  process.type = words[pid_at + 1];
  if (words.size() == pid_at + 2) return process;
  process.memory = words.back();
  const bool has_memory = process.memory.ends_with("iB") || is_gap(process.memory);
  if (!has_memory) process.memory.clear();
  const std::size_t last = words.size() - (has_memory ? 1 : 0);
  if (last > pid_at + 2) {
    const char* begin = words[pid_at + 2].data();
    const char* end = words[last - 1].data() + words[last - 1].size();
    process.name.assign(begin, end);
  }
  return process;
}

enum class Section { gpus, mig, processes };

/// What one row of the table adds to it.
void take_row(std::string_view line, Section& section, SmiTable& table) {
  const Cells cells = bar_cells_of(line);
  if (cells.empty()) return;
  const std::string_view first = trim(cells[0]);
  if (first.starts_with("MIG devices")) {
    section = Section::mig;
  } else if (first.starts_with("Processes") || first.starts_with("Compute processes")) {
    section = Section::processes;
    table.has_process_section = true;
  } else if (section == Section::processes) {
    if (first.ends_with("processes found") || first.starts_with("Not Supported")) table.processes_text = first;
    const auto words = split_words(first);
    if (words.size() == 3 && words[1] == "Not" && words[2] == "Supported" && small_number(words[0]))
      table.without_processes.push_back(*small_number(words[0]));
    if (cells.size() != 1) return;
    if (auto process = process_row(cells[0])) table.processes.push_back(std::move(*process));
  } else if (section == Section::mig) {
    if (first.starts_with("No MIG devices")) return;
    if (auto mig = mig_row(cells)) table.mig_devices.push_back(std::move(*mig));
  } else if (auto gpu = identity_row(cells)) {
    table.gpus.push_back(std::move(*gpu));
  } else if (!table.gpus.empty() && !reading_row(cells, table.gpus.back()) && cells.size() == 3 && first.empty()) {
    table.gpus.back().mig = std::string(trim(cells[2]));
  }
}

}  // namespace

bool is_table_header(std::string_view line) {
  // "nvidia-smi | NVIDIA-SMI 535 ...": what was put before the bar may have gone with it.
  const bool named = line.contains("| NVIDIA-SMI ") || (line.starts_with("NVIDIA-SMI ") && line.contains("CUDA "));
  return named && line.contains("Version:");
}

SmiTable read_smi_table(std::span<const Line> lines, std::size_t& end) {
  SmiTable table;
  // A header that was cut may have lost the end of a version.
  const std::string_view header =
      lines.front().ended || lines.front().text.ends_with('|') ? std::string_view(lines.front().text) : "";
  table.smi_version = after(header, "NVIDIA-SMI");
  table.driver_version =
      header.contains("KMD Version:") ? after(header, "KMD Version:") : after(header, "Driver Version:");
  table.cuda_version = header.contains("UMD Version:") ? after(header, "UMD Version:") : after(header, "CUDA Version:");
  if (table.cuda_version == "|") table.cuda_version.clear();
  Section section = Section::gpus;
  std::size_t blank = 0;
  end = 1;
  const std::size_t edge = lines.front().text.find("| NVIDIA-SMI ");
  for (std::size_t i = 1; i < lines.size(); ++i) {
    std::string_view line = lines[i].text;
    if (is_table_header(line)) break;
    // What stands before the header's edge stands before every row's.
    if (edge < line.size() && (line[edge] == '|' || line[edge] == '+')) line.remove_prefix(edge);
    const bool row = !bar_cells_of(line).empty() || is_border(line);
    blank = row ? 0 : blank + 1;
    // Between the sections stands one line that is no row; more than a few, and the table is over.
    if (blank > 3) break;
    if (!row) continue;
    table.of_windows = table.of_windows || line.contains("TCC/WDDM") || line.contains("Driver-Model");
    take_row(line, section, table);
    end = i + 1;
  }
  return table;
}

std::pair<std::string, std::string> sides_of(std::string_view cell) {
  const std::size_t slash = cell.find(" / ");
  if (slash == std::string_view::npos) return {};
  return {std::string(trim(cell.substr(0, slash))), std::string(trim(cell.substr(slash + 3)))};
}

}  // namespace gpuwarden::capture
