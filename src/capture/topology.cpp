// SPDX-License-Identifier: Apache-2.0
#include "capture/topology.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "capture/cells.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

constexpr auto kTails = std::to_array<std::string_view>({"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"});
constexpr auto kLevels = std::to_array<std::string_view>({"NODE", "PIX", "PXB", "PHB", "PSB", "SOC", "SYS", "X"});
constexpr auto kP2p = std::to_array<std::string_view>({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U", "X"});

/// A real node has up to 16, a hostile file as many as fit into it.
constexpr std::size_t kMostTopologyGpus = 256;
constexpr std::size_t kMostColumns = 1024;

std::size_t digits_at(std::string_view text) { return std::min(text.find_first_not_of("0123456789"), text.size()); }

/// "GPU0", "NIC12": devices that nvidia-smi numbers; they may stand right before the next word.
std::size_t numbered_device(std::string_view text) {
  for (const std::string_view prefix : {"GPU", "NIC"}) {
    if (!text.starts_with(prefix)) continue;
    const std::size_t digits = digits_at(text.substr(prefix.size()));
    if (digits > 0) return prefix.size() + digits;
  }
  return 0;
}

std::size_t word_at(std::string_view text) { return std::min(text.find_first_of(" \t"), text.size()); }

/// The longest connection that `text` begins with: "NV18" or one of the words; 0 for none.
std::size_t word_of_connection(std::string_view text, bool p2p) {
  if (!p2p && text.starts_with("NV")) {
    const std::size_t digits = digits_at(text.substr(2));
    if (digits > 0) return 2 + digits;
  }
  std::size_t best = 0;
  const auto consider = [&](const auto& words) {
    for (const std::string_view word : words) {
      if (text.starts_with(word)) best = std::max(best, word.size());
    }
  };
  p2p ? consider(kP2p) : consider(kLevels);
  return best;
}

/// The same, but a word that goes on is another word, unless it is the next connection that ran together with this one.
std::size_t connection_at(std::string_view text, bool p2p) {
  const std::size_t length = word_of_connection(text, p2p);
  const std::string_view rest = text.substr(length);
  const bool goes_on = !rest.empty() && rest[0] != ' ' && rest[0] != '\t';
  return goes_on && word_of_connection(rest, p2p) == 0 ? 0 : length;
}

void skip_blanks(std::string_view& text) { text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size())); }

/// Device columns, then tail columns.
void read_header(std::string_view line, Topology& topology) {
  for (skip_blanks(line); !line.empty() && topology.devices.size() < kMostColumns; skip_blanks(line)) {
    const auto* tail = std::ranges::find_if(kTails, [&](std::string_view name) { return line.starts_with(name); });
    std::size_t length = 0;
    if (tail != kTails.end()) {
      length = tail->size();
      topology.tail.emplace_back(*tail);
    } else {
      length = numbered_device(line);
      if (length == 0) length = word_at(line);
      topology.devices.emplace_back(line.substr(0, length));
    }
    line.remove_prefix(length);
  }
}

std::optional<TopologyRow> read_row(std::string_view line, std::size_t columns, bool p2p) {
  TopologyRow row;
  row.line = line;
  skip_blanks(line);
  std::size_t length = numbered_device(line);
  if (length == 0) length = word_at(line);
  row.name = line.substr(0, length);
  line.remove_prefix(length);
  while (row.cells.size() < columns) {
    skip_blanks(line);
    const std::size_t size = connection_at(line, p2p);
    if (size == 0) break;
    row.cells.emplace_back(line.substr(0, size));
    line.remove_prefix(size);
  }
  if (row.name.empty() || row.cells.empty()) return std::nullopt;
  for (const std::string_view word : split_words(line)) row.affinity.emplace_back(word);
  return row;
}

/// "  NIC0: mlx5_0"
std::optional<std::pair<std::string, std::string>> legend_of(std::string_view line) {
  const std::string_view text = trim(line);
  const std::size_t length = numbered_device(text);
  if (length == 0 || !text.starts_with("NIC") || text.size() < length + 3 || text[length] != ':') return std::nullopt;
  return std::pair(std::string(text.substr(0, length)), std::string(trim(text.substr(length + 1))));
}

bool has_p2p_cells(std::string_view line) {
  const auto row = read_row(line, 512, true);
  return row && std::ranges::any_of(row->cells, [](const std::string& cell) { return cell != "X"; });
}

std::optional<std::uint32_t> gpu_number(std::string_view name) {
  if (!name.starts_with("GPU")) return std::nullopt;
  const auto number = parse_integer(name.substr(3));
  return number && *number < 4096 ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

/// Sets a link's level and NVLinks from "NV18", "PIX", ... A GPU in MIG mode hides its NVLinks in its own row only: the
/// larger count of both directions holds.
void set_connection(facts::Link& link, const std::string& there, const std::string& back) {
  const auto nvlinks = [](std::string_view cell) {
    const auto number = cell.starts_with("NV") ? parse_integer(cell.substr(2)) : std::nullopt;
    return static_cast<int>(number && *number < 1000 ? *number : 0);
  };
  link.nvlinks = std::max(nvlinks(there), nvlinks(back));
  for (const std::string& cell : {there, back}) {
    if (!link.level) link.level = facts::link_level_from(cell == "SOC" ? "SYS" : cell == "PSB" ? "PXB" : cell);
  }
}

void read_affinity(const Topology& topology, const TopologyRow& row, facts::Gpu& gpu) {
  // Empty cells leave no word: only a full row says which word belongs to which column.
  if (row.affinity.size() != topology.tail.size()) return;
  for (std::size_t i = 0; i < topology.tail.size(); ++i) {
    const std::string& word = row.affinity[i];
    if (is_gap(word)) continue;
    if (topology.tail[i] == "CPU Affinity") gpu.cpu_affinity = printable(word);
    if (topology.tail[i] == "NUMA Affinity") {
      const auto node = parse_integer(word);
      if (node && *node >= 0 && *node < 4096) gpu.numa_node = static_cast<int>(*node);
    }
  }
}

void read_nics(const Topology& topology, facts::Snapshot& snapshot) {
  for (const std::string& device : topology.devices) {
    if (gpu_number(device)) continue;
    facts::Nic nic;
    nic.name = printable(device);
    for (const auto& [number, name] : topology.nic_names) {
      if (number == device) nic.name = printable(name);
    }
    for (const facts::GpuRecord& record : snapshot.gpus) {
      const auto cell = topology.cell("GPU" + std::to_string(record.gpu.index.value), device);
      const auto level = cell ? facts::link_level_from(*cell) : std::nullopt;
      if (level) nic.distances.push_back({record.gpu.index, *level});
    }
    snapshot.nics.push_back(std::move(nic));
  }
}

}  // namespace

std::size_t Topology::gpu_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(devices, [](const std::string& name) { return gpu_number(name).has_value(); }));
}

std::optional<std::string> Topology::cell(std::string_view row, std::string_view column) const {
  const auto line = std::ranges::find(rows, row, &TopologyRow::name);
  const auto at = static_cast<std::size_t>(std::ranges::find(devices, column) - devices.begin());
  if (line == rows.end() || at >= line->cells.size()) return std::nullopt;
  return line->cells[at];
}

bool is_topology_header(std::span<const Line> lines) {
  if (lines.size() < 2 || !trim(lines[0].text).starts_with("GPU") || lines[0].text.contains(": ")) return false;
  if (numbered_device(trim(lines[0].text)) == 0) return false;
  const std::string_view next = trim(lines[1].text);
  return numbered_device(next) > 0 && read_row(next, 512, has_p2p_cells(next)).has_value();
}

Topology read_topology(std::span<const Line> lines, std::size_t& end) {
  Topology topology;
  topology.header = lines[0].text;
  topology.is_p2p = has_p2p_cells(lines[1].text);
  read_header(lines[0].text, topology);
  end = 1;
  bool in_rows = true;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = lines[i].text;
    // A row that was cut may have lost the end of a word.
    auto row = in_rows && lines[i].ended ? read_row(line, topology.devices.size(), topology.is_p2p) : std::nullopt;
    const bool known = row && std::ranges::find(topology.devices, row->name) != topology.devices.end();
    if (known) {
      topology.rows.push_back(std::move(*row));
      end = i + 1;
      continue;
    }
    in_rows = false;
    if (auto legend = legend_of(line)) topology.nic_names.push_back(std::move(*legend));
    const bool legend_text = line.empty() || line.contains(" = ") || line.contains("Legend") || legend_of(line);
    if (!legend_text) break;
    if (!line.empty()) end = i + 1;
  }
  return topology;
}

facts::Snapshot snapshot_of_topology(const Topology& topology) {
  facts::Snapshot snapshot;
  snapshot.source = "nvidia-smi";
  auto& links = snapshot.links.emplace();
  for (const std::string& device : topology.devices) {
    const auto index = gpu_number(device);
    if (!index || snapshot.gpus.size() == kMostTopologyGpus) continue;
    facts::GpuRecord& record = snapshot.gpus.emplace_back();
    record.gpu.index = GpuIndex{*index};
    const auto row = std::ranges::find(topology.rows, device, &TopologyRow::name);
    if (row != topology.rows.end()) read_affinity(topology, *row, record.gpu);
  }
  for (std::size_t i = 0; i < snapshot.gpus.size(); ++i) {
    for (std::size_t j = i + 1; j < snapshot.gpus.size(); ++j) {
      facts::Link link{snapshot.gpus[i].gpu.index, snapshot.gpus[j].gpu.index, {}, 0, {}, {}, {}, {}};
      const std::string a = "GPU" + std::to_string(link.a.value);
      const std::string b = "GPU" + std::to_string(link.b.value);
      const auto there = topology.cell(a, b);
      const auto back = topology.cell(b, a);
      if (!there && !back) continue;
      if (topology.is_p2p) {
        link.p2p_read = there ? there : back;
      } else {
        set_connection(link, there.value_or(""), back.value_or(""));
      }
      links.push_back(link);
    }
  }
  if (!topology.is_p2p) read_nics(topology, snapshot);
  return snapshot;
}

}  // namespace gpuwarden::capture
