// SPDX-License-Identifier: Apache-2.0
#include "capture/monitor.hpp"

#include <algorithm>
#include <array>

#include "capture/cells.hpp"
#include "capture/identity.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::capture {
namespace {

/// A dmon column, the metric it holds, and the factor to that metric's shown unit.
struct Column {
  std::string_view name;
  std::string_view metric;
  double factor = 1;
};

constexpr double kMiB = 1U << 20U;
constexpr auto kColumns = std::to_array<Column>({{"pwr", "power"},
                                                 {"gtemp", "temperature"},
                                                 {"temp", "temperature"},
                                                 {"mtemp", "memory_temperature"},
                                                 {"sm", "utilization"},
                                                 {"mem", "memory_utilization"},
                                                 {"enc", "encoder_utilization"},
                                                 {"dec", "decoder_utilization"},
                                                 {"jpg", "jpeg_utilization"},
                                                 {"ofa", "ofa_utilization"},
                                                 {"mclk", "clock_memory"},
                                                 {"pclk", "clock_graphics"},
                                                 {"fb", "memory_used", kMiB},
                                                 {"bar1", "bar1_used", kMiB},
                                                 {"sbecc", "ecc_corrected_aggregate"},
                                                 {"dbecc", "ecc_uncorrected_aggregate"},
                                                 {"pci", "pcie_replays"},
                                                 {"rxpci", "pcie_received", 1e6},
                                                 {"txpci", "pcie_sent", 1e6}});

std::optional<std::uint32_t> gpu_of(const Monitor& monitor, std::size_t row) {
  const auto index = parse_integer(monitor.cell(row, "gpu"));
  return index && *index >= 0 && *index < 100000 ? std::optional(static_cast<std::uint32_t>(*index)) : std::nullopt;
}

facts::GpuRecord& record_of(facts::Snapshot& snapshot, std::uint32_t index) {
  const auto known = std::ranges::find(snapshot.gpus, GpuIndex{index},
                                       [](const facts::GpuRecord& record) { return record.gpu.index; });
  if (known != snapshot.gpus.end()) return *known;
  facts::GpuRecord& record = snapshot.gpus.emplace_back();
  record.gpu.index = GpuIndex{index};
  return record;
}

void read_sample(const Monitor& monitor, std::size_t row, facts::GpuRecord& record) {
  record.sample = {};
  for (const Column& column : kColumns) {
    const auto value = number_of(monitor.cell(row, column.name), "");
    const auto* metric = facts::find_metric(column.metric);
    if (value && metric != nullptr && *value >= -1e6 && *value < 1e12)
      set_value(*metric, record.sample, *value * column.factor);
  }
  facts::drop_impossible(record.sample);
}

std::optional<Percent> share_of(std::string_view cell) {
  std::optional<Percent> share;
  if (const auto value = number_of(cell, ""); value && *value >= 0 && *value <= 100) put(share, value);
  return share;
}

void read_process(const Monitor& monitor, std::size_t row, facts::GpuRecord& record) {
  if (!record.processes) record.processes.emplace();
  const auto pid = parse_integer(monitor.cell(row, "pid"));
  if (!pid || *pid < 0 || *pid > INT32_MAX) return;
  facts::GpuProcess process;
  process.pid = Pid{static_cast<std::int32_t>(*pid)};
  set_type(process, monitor.cell(row, "type"));
  process.sm = share_of(monitor.cell(row, "sm"));
  process.memory_busy = share_of(monitor.cell(row, "mem"));
  process.encoder = share_of(monitor.cell(row, "enc"));
  process.decoder = share_of(monitor.cell(row, "dec"));
  process.jpeg = share_of(monitor.cell(row, "jpg"));
  process.ofa = share_of(monitor.cell(row, "ofa"));
  process.memory = memory_of(monitor.cell(row, "fb"));
  process.command = text_of(monitor.cell(row, "command"));
  auto& list = *record.processes;
  // A later round shows a process again.
  const auto known = std::ranges::find(list, process.pid, &facts::GpuProcess::pid);
  if (known != list.end()) {
    *known = std::move(process);
  } else {
    list.push_back(std::move(process));
  }
  if (list.back().compute) record.state = facts::GpuState::busy;
}

}  // namespace

std::string_view Monitor::cell(std::size_t row, std::string_view column) const {
  const auto at = static_cast<std::size_t>(std::ranges::find(columns, column) - columns.begin());
  return at < rows[row].size() ? std::string_view(rows[row][at]) : std::string_view();
}

bool is_monitor_header(std::string_view line) {
  const auto words = split_words(line);
  const bool spaced = words.size() > 2 && words[0] == "#" && (words[1] == "gpu" || words[1] == "Date");
  return spaced || (words.size() > 2 && (words[0] == "#gpu" || words[0] == "#Date"));
}

Monitor read_monitor(std::span<const Line> lines, std::size_t& end) {
  Monitor monitor;
  end = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (is_monitor_header(line.text)) {
      std::string header = line.text;
      std::ranges::replace(header, '#', ' ');
      monitor.columns.clear();
      for (const std::string_view word : split_words(header)) monitor.columns.emplace_back(word);
      monitor.is_processes = std::ranges::find(monitor.columns, "pid") != monitor.columns.end();
    } else if (!line.text.starts_with('#')) {
      auto words = split_words(line.text);
      // A command may hold spaces and stands last; a line that did not end may have lost part of its last word.
      const bool whole = line.ended && words.size() >= monitor.columns.size();
      if (!whole || (!monitor.is_processes && words.size() != monitor.columns.size())) break;
      auto& row = monitor.rows.emplace_back();
      for (std::size_t w = 0; w < monitor.columns.size(); ++w) row.emplace_back(words[w]);
      if (words.size() > monitor.columns.size()) {
        const auto begin = static_cast<std::size_t>(words[monitor.columns.size() - 1].data() - line.text.data());
        row.back() = line.text.substr(begin);
      }
    }
    end = i + 1;
  }
  return monitor;
}

facts::Snapshot snapshot_of_monitor(const Monitor& monitor) {
  facts::Snapshot snapshot;
  snapshot.source = "nvidia-smi";
  for (std::size_t row = 0; row < monitor.rows.size(); ++row) {
    const auto index = gpu_of(monitor, row);
    if (!index) continue;
    facts::GpuRecord& record = record_of(snapshot, *index);
    monitor.is_processes ? read_process(monitor, row, record) : read_sample(monitor, row, record);
  }
  return snapshot;
}

}  // namespace gpuwarden::capture
