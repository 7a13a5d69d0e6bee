// SPDX-License-Identifier: Apache-2.0
// nvidia-smi --query-gpu and --query-compute-apps with any list of fields, with and without header and units.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

struct SmiCsv {
  bool has_header = false;
  bool is_processes = false;
  std::vector<std::string>
      columns;                      ///< as printed: "utilization.gpu [%]"; without a header, what the cells can only be
  std::vector<std::string> fields;  ///< the columns by their usual names, without units
  std::vector<std::vector<std::string>> rows;

  /// The column of a field, unit or not; nothing where it was not asked for.
  std::optional<std::size_t> column(std::string_view field) const;
  /// A cell of a row; empty where there is none.
  std::string_view cell(std::size_t row, std::string_view field) const;
};

/// Whether a line is a header of nvidia-smi's CSV: it has a field that only nvidia-smi has, or nothing but common ones.
bool is_csv_header(std::string_view line);
/// Whether a line is a row without header: an index or a name or UUID of a GPU among its cells.
bool is_headless_row(std::string_view line);
SmiCsv read_smi_csv(std::span<const Line> lines, std::size_t& end);

/// The last row of each GPU is its reading: a file that was written in a loop holds many.
facts::Snapshot snapshot_of_csv(const SmiCsv& csv);

}  // namespace gpuwarden::capture
