// SPDX-License-Identifier: Apache-2.0
// The table of processes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/facts/use.hpp"
#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

struct ProcessColumn {
  const char* title;
  SortBy by;
  int width;
  bool right;
  int rank;  ///< the highest gives way first; 0: never
  std::string (*cell)(const Frame&, const ProcessRow&);
};

std::string share_text(const std::optional<Percent>& share) { return share ? std::to_string(share->value) : "-"; }

std::string pid_text(const Frame& /*frame*/, const ProcessRow& row) {
  return row.process == nullptr ? "-" : std::to_string(row.id.pid.value);
}
std::string user_text(const Frame& /*frame*/, const ProcessRow& row) {
  return row.process == nullptr ? "-" : row.process->user.value_or("?");
}
std::string gpu_text(const Frame& frame, const ProcessRow& row) { return frame.rows.all_gpus[row.gpu].label; }
std::string type_text(const Frame& /*frame*/, const ProcessRow& row) {
  return row.process == nullptr ? "-" : std::string(facts::type_of(*row.process));
}
std::string sm_text(const Frame& /*frame*/, const ProcessRow& row) {
  return row.process == nullptr ? "-" : share_text(row.process->sm);
}
std::string memory_text(const Frame& /*frame*/, const ProcessRow& row) {
  if (row.process == nullptr) return size_words(row.memory_left);
  return row.process->memory ? size_words(*row.process->memory) : "-";
}
std::string cpu_text(const Frame& /*frame*/, const ProcessRow& row) {
  return row.host != nullptr && row.host->cpu_percent ? fmt::format("{:.0f}", *row.host->cpu_percent) : "-";
}
std::string host_memory_text(const Frame& /*frame*/, const ProcessRow& row) {
  return row.host != nullptr && row.host->memory ? size_words(*row.host->memory) : "-";
}
std::string time_text(const Frame& /*frame*/, const ProcessRow& row) {
  return row.host != nullptr && row.host->age ? age_words(*row.host->age) : "-";
}

/// The sum over what the process's pools on this GPU tell; nothing where none does.
std::optional<Bytes> pool_sum(const Frame& frame, const ProcessRow& row, Bytes pools::PublishedPool::* figure) {
  const facts::GpuRecord* const record = frame.rows.all_gpus[row.gpu].record;
  if (row.host == nullptr || record == nullptr) return std::nullopt;
  const pools::Pools here = pools::pools_on(*record, row.host->pools);
  if (here.empty()) return std::nullopt;
  Bytes sum;
  for (const pools::PublishedPool& pool : here) sum = sum + pool.*figure;
  return sum;
}

template <Bytes pools::PublishedPool::* figure>
std::string pool_text(const Frame& frame, const ProcessRow& row) {
  const auto sum = pool_sum(frame, row, figure);
  return sum ? size_words(*sum) : "-";
}
constexpr auto kAllocatedText = &pool_text<&pools::PublishedPool::live>;
constexpr auto kReservedText = &pool_text<&pools::PublishedPool::reserved>;
constexpr auto kPeakText = &pool_text<&pools::PublishedPool::peak_reserved>;

/// What it belongs to: a job, a pod, a container.
std::string place_text(const Frame& frame, const ProcessRow& row) {
  if (row.process == nullptr) return "";
  if (row.process->slurm_job) return "job " + *row.process->slurm_job;
  if (row.process->pod) return "pod " + row.process->pod->substr(0, 8);
  if (row.process->container) return *row.process->container;
  const facts::Lease* lease = frame.rows.all_gpus[row.gpu].lease;
  if (lease == nullptr) return "";
  const auto holder = std::ranges::find(lease->holders, row.id.pid, &facts::LeaseHolder::pid);
  return holder != lease->holders.end() ? holder->run_id : "";
}

constexpr auto kProcessColumns = std::to_array<ProcessColumn>({
    {"PID", SortBy::pid, 7, true, 0, pid_text},
    {"USER", SortBy::user, 8, false, 2, user_text},
    {"GPU", SortBy::gpu, 3, true, 1, gpu_text},
    {"TYPE", SortBy::type, 4, false, 8, type_text},
    {"SM%", SortBy::sm, 3, true, 4, sm_text},
    {"GPU-MEM", SortBy::memory, 7, true, 3, memory_text},
    {"ALLOC", SortBy::memory, 6, true, 10, kAllocatedText},
    {"RESERVED", SortBy::memory, 8, true, 11, kReservedText},
    {"PEAK", SortBy::memory, 6, true, 12, kPeakText},
    {"CPU%", SortBy::cpu, 4, true, 5, cpu_text},
    {"HOST", SortBy::host_memory, 5, true, 7, host_memory_text},
    {"TIME", SortBy::time, 8, true, 6, time_text},
    {"JOB", SortBy::gpu, 12, false, 9, place_text},
});
using ProcessWidths = std::array<int, kProcessColumns.size()>;
constexpr int kLeastCommand = 16;

bool is_of_pools(const ProcessColumn& column) {
  return column.cell == kAllocatedText || column.cell == kReservedText || column.cell == kPeakText;
}

/// Its own width at least; what is not told of any process takes none.
int process_width(const Frame& frame, const ProcessColumn& column) {
  if (column.cell == host_memory_text || column.cell == time_text || column.cell == cpu_text) {
    const auto hosted = [](const ProcessRow& row) { return row.host != nullptr; };
    if (std::ranges::none_of(frame.rows.processes, hosted)) return 0;
  }
  if (is_of_pools(column)) {
    const auto told = [&](const ProcessRow& row) { return column.cell(frame, row) != "-"; };
    return std::ranges::any_of(frame.rows.processes, told) ? column.width : 0;
  }
  int widest = 0;
  const bool measured = column.cell == gpu_text || column.cell == place_text || column.cell == user_text;
  for (const ProcessRow& row : frame.rows.processes)
    if (measured) widest = std::max(widest, display_width(column.cell(frame, row)));
  if (column.cell == gpu_text) return std::max(column.width + 1, std::min(widest, 20));
  if (column.cell == place_text) return widest == 0 ? 0 : std::min(std::max(widest, 3), column.width);
  if (column.cell == user_text) return std::clamp(widest, 4, 12);
  return std::max(column.width, frame.state.sort == column.by ? display_width(column.title) + 1 : 0);
}

ProcessWidths process_widths(const Frame& frame, int width) {
  ProcessWidths widths{};
  for (std::size_t i = 0; i < widths.size(); ++i) widths.at(i) = process_width(frame, kProcessColumns.at(i));
  const auto taken = [&] {
    int sum = 1;
    for (const int column : widths) sum += column == 0 ? 0 : column + 1;
    return sum;
  };
  for (int rank = 12; rank > 0 && taken() + kLeastCommand > width; --rank) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (kProcessColumns.at(i).rank == rank) widths.at(i) = 0;
  }
  return widths;
}

/// A column's title, with the way of sorting behind the one that is sorted by.
std::string process_title(const Frame& frame, const char* title, SortBy by) {
  if (frame.state.sort != by || std::string_view(title) == "JOB") return title;
  if (frame.ascii()) return std::string(title) + (frame.state.descending ? "-" : "+");
  return std::string(title) + (frame.state.descending ? "▼" : "▲");
}

void draw_process_head(const Frame& frame, Rect area, const ProcessWidths& widths) {
  int x = area.x + 1;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const ProcessColumn& column = kProcessColumns.at(i);
    if (widths.at(i) == 0) continue;
    // What pools tell is not what is sorted by.
    const std::string title = is_of_pools(column) ? column.title : process_title(frame, column.title, column.by);
    const Tone tone = Tone::title;
    if (column.right)
      frame.canvas.put_right({x + widths.at(i), area.y}, title, tone, widths.at(i));
    else
      frame.canvas.put({x, area.y}, title, tone, widths.at(i));
    x += widths.at(i) + 1;
  }
  frame.canvas.put({x, area.y}, process_title(frame, "COMMAND", SortBy::command), Tone::title);
}

/// Of memory in no line of its own: Windows' driver (WDDM) lists processes without their share.
std::string unlisted_words(const Frame& frame, const ProcessRow& row) {
  const facts::GpuRecord* const record = frame.rows.all_gpus[row.gpu].record;
  const bool shares_told = record == nullptr || !record->processes ||
                           std::ranges::all_of(*record->processes, [](const facts::GpuProcess& process) {
                             return !process.listed || process.memory.has_value();
                           });
  return shares_told ? "(held, but not by a process that the driver lists)"
                     : "(held; the driver does not tell how much of it each process has)";
}

std::string command_of(const Frame& frame, const ProcessRow& row) {
  if (row.process == nullptr) return unlisted_words(frame, row);
  const std::string branch =
      row.depth == 0 ? ""
                     : std::string(static_cast<std::size_t>(row.depth) * 2 - 2, ' ') + (frame.ascii() ? "`-" : "└─");
  return branch + row.process->command.value_or("? (the system does not show its command)");
}

/// A text without its first columns.
std::string_view without_columns(std::string_view text, std::size_t columns) {
  while (columns > 0 && !text.empty()) {
    std::size_t length = 1;
    while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) ++length;
    text.remove_prefix(length);
    --columns;
  }
  return text;
}

void draw_process(const Frame& frame, Rect area, const ProcessRow& row, const ProcessWidths& widths) {
  const bool tagged = frame.state.tagged.contains(row.id);
  if (tagged) frame.canvas.put({area.x, area.y}, "*", Tone::warning);
  const Tone tone = row.process == nullptr ? Tone::dim : tagged ? Tone::bold : Tone::plain;
  int x = area.x + 1;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const int width = widths.at(i);
    if (width == 0) continue;
    const std::string text = kProcessColumns.at(i).cell(frame, row);
    if (kProcessColumns.at(i).right)
      frame.canvas.put_right({x + width, area.y}, text, text == "-" ? Tone::dim : tone, width);
    else
      frame.canvas.put({x, area.y}, text, tone, width);
    x += width + 1;
  }
  const std::string command = command_of(frame, row);
  frame.canvas.put({x, area.y}, without_columns(command, frame.state.command_from), tone, area.x + area.width - x);
}

std::string_view no_processes(const Frame& frame) {
  if (frame.rows.all_gpus.empty()) return "";
  if (frame.state.filter) return "no process matches the filter";
  const bool known = std::ranges::all_of(frame.rows.all_gpus, [](const GpuRow& row) {
    return row.record != nullptr && row.record->processes.has_value();
  });
  return known ? "no processes" : "no processes seen; not every GPU tells of its own";
}

}  // namespace

void draw_processes(const Frame& frame, const Layout& layout) {
  const Rect& area = layout.processes;
  if (area.height <= 0) return;
  const ProcessWidths widths = process_widths(frame, area.width);
  draw_process_head(frame, area, widths);
  if (frame.rows.processes.empty()) {
    frame.canvas.put({area.x + 1, area.y + 1}, no_processes(frame), Tone::dim, area.width - 1);
    return;
  }
  const auto selected = selected_process(frame.state, frame.rows);
  for (std::size_t i = 0; i < layout.processes_in_sight; ++i) {
    const std::size_t nth = frame.state.first_process + i;
    if (nth >= frame.rows.processes.size()) return;
    const Rect line{area.x, area.y + 1 + static_cast<int>(i), area.width, 1};
    draw_process(frame, line, frame.rows.processes[nth], widths);
    if (nth == selected && frame.state.focus == Focus::processes) frame.canvas.invert(line);
  }
}

}  // namespace gpuwarden::view
