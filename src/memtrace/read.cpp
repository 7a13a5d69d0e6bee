// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/read.hpp"

#include <fmt/format.h>

#include "memtrace/csv.hpp"
#include "memtrace/snapshot_tree.hpp"

namespace gpuwarden::memtrace {
namespace {

bool is_pickle(std::string_view data) {
  // Protocol 2 and later name themselves; before that a dictionary or list begins with one of these.
  return data.starts_with('\x80') || data.starts_with("(d") || data.starts_with("(l") || data.starts_with('}') ||
         data.starts_with(']');
}

bool is_json(std::string_view data) {
  const std::size_t first = data.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (data[first] == '{' || data[first] == '[');
}

}  // namespace

Result<Trace> read_trace(std::string_view data, const std::string& name, const ReadOptions& options) {
  // Spreadsheets begin text with a byte order mark.
  if (data.starts_with("\xEF\xBB\xBF")) data.remove_prefix(3);
  if (data.empty()) return fail(ErrorCode::invalid_argument, fmt::format("{}: is empty", name));
  if (is_allocation_csv(data)) return read_allocation_csv(data, name, options);
  if (is_rmm_log(data)) return read_rmm_log(data, name, options);
  const bool json = is_json(data);
  if (!json && !is_pickle(data))
    return fail(ErrorCode::invalid_argument, fmt::format("{}: is not a known format of allocation trace", name),
                "a CSV (op,id,size,...), a PyTorch snapshot (.pickle, .json) or an RMM log");
  SnapshotTree tree;
  GPUWARDEN_TRY(const Value root, json ? read_json(data, name, tree) : read_pickle(data, name, tree));
  return trace_of_snapshot(tree, root, json ? "PyTorch snapshot (JSON)" : "PyTorch snapshot (pickle)", name, options);
}

}  // namespace gpuwarden::memtrace
