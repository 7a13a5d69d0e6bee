// SPDX-License-Identifier: Apache-2.0
#include "view/process_order.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace gpuwarden::view {
namespace {

/// What rows are compared by: a number where both have one, else a text. Unknown is less than anything known.
struct SortValue {
  double number = -1;
  std::string text;
};

double percent_of(const std::optional<Percent>& percent) { return percent ? static_cast<double>(percent->value) : -1; }

SortValue sort_value(SortBy by, const ProcessRow& row) {
  const facts::GpuProcess* process = row.process;
  const bool hosted = row.host != nullptr;
  switch (by) {
    case SortBy::gpu:
      return {static_cast<double>(row.gpu), ""};
    case SortBy::pid:
      return {static_cast<double>(row.id.pid.value), ""};
    case SortBy::user:
      return {0, process == nullptr ? "" : process->user.value_or("")};
    case SortBy::type:
      return {0, process == nullptr ? "" : std::string(facts::type_of(*process))};
    case SortBy::sm:
      return {process == nullptr ? -1 : percent_of(process->sm), ""};
    case SortBy::memory:
      return {
          static_cast<double>(process == nullptr ? row.memory_left.value : process->memory.value_or(Bytes(0)).value),
          ""};
    case SortBy::cpu:
      return {hosted ? row.host->cpu_percent.value_or(-1) : -1, ""};
    case SortBy::host_memory:
      return {hosted && row.host->memory ? static_cast<double>(row.host->memory->value) : -1, ""};
    case SortBy::time:
      return {hosted && row.host->age ? static_cast<double>(row.host->age->count()) : -1, ""};
    case SortBy::command:
      return {0, process == nullptr ? "" : process->command.value_or("")};
  }
  return {};
}

/// Appends a process and those below it.
struct Planter {
  const std::vector<ProcessRow>& rows;
  std::vector<std::vector<std::size_t>> children;
  std::vector<ProcessRow> planted;

  void plant(std::size_t at, int depth) {
    planted.push_back(rows[at]);
    planted.back().depth = depth;
    for (const std::size_t child : children[at]) plant(child, depth + 1);
  }
};

/// The place of the nearest ancestor that is in the list; itself where there is none.
std::size_t parent_of(const std::vector<ProcessRow>& rows, std::size_t at) {
  if (rows[at].host == nullptr) return at;
  for (const Pid ancestor : rows[at].host->ancestors) {
    // A pid cannot be its own ancestor; a table that says so is of two moments.
    if (ancestor == rows[at].id.pid) return at;
    const auto found = std::ranges::find_if(rows, [&](const ProcessRow& row) {
      return row.process != nullptr && row.id.pid == ancestor && row.host != nullptr &&
             std::ranges::find(row.host->ancestors, rows[at].id.pid) == row.host->ancestors.end();
    });
    if (found != rows.end()) return static_cast<std::size_t>(found - rows.begin());
  }
  return at;
}

}  // namespace

const std::vector<SortColumn>& sort_columns() {
  static const std::vector<SortColumn> kColumns{
      {SortBy::gpu, 'n', "GPU", false},         {SortBy::pid, 'p', "PID", false},
      {SortBy::user, 'u', "USER", false},       {SortBy::sm, 's', "SM%", true},
      {SortBy::memory, 'g', "GPU-MEM", true},   {SortBy::cpu, 'c', "CPU%", true},
      {SortBy::host_memory, 'm', "HOST", true}, {SortBy::time, 't', "TIME", true},
      {SortBy::command, 'k', "COMMAND", false}};
  return kColumns;
}

void sort_processes(const ViewState& state, Rows& rows) {
  std::vector<std::pair<SortValue, ProcessRow>> keyed;
  keyed.reserve(rows.processes.size());
  for (ProcessRow& row : rows.processes) keyed.emplace_back(sort_value(state.sort, row), std::move(row));
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    const auto left = std::tie(a.first.number, a.first.text);
    const auto right = std::tie(b.first.number, b.first.text);
    return state.descending ? right < left : left < right;
  });
  rows.processes.clear();
  for (auto& [value, row] : keyed) rows.processes.push_back(std::move(row));
}

void put_into_tree(std::vector<ProcessRow>& processes) {
  Planter planter{processes, std::vector<std::vector<std::size_t>>(processes.size()), {}};
  std::vector<std::size_t> roots;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const std::size_t parent = parent_of(processes, i);
    if (parent == i)
      roots.push_back(i);
    else
      planter.children[parent].push_back(i);
  }
  for (const std::size_t root : roots) planter.plant(root, 0);
  // Tables of two moments can have a ring, which no root reaches: it is shown flat.
  if (planter.planted.size() == processes.size()) processes = std::move(planter.planted);
}

}  // namespace gpuwarden::view
