// SPDX-License-Identifier: Apache-2.0
// nvidia-smi dmon and pmon: columns named by a "# gpu ..." header, "-" for nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

struct Monitor {
  bool is_processes = false;         ///< pmon
  std::vector<std::string> columns;  ///< "gpu", "pwr", ...
  std::vector<std::vector<std::string>> rows;

  std::string_view cell(std::size_t row, std::string_view column) const;
};

bool is_monitor_header(std::string_view line);
Monitor read_monitor(std::span<const Line> lines, std::size_t& end);
/// The last sample of each GPU, and of pmon the processes of the last round.
facts::Snapshot snapshot_of_monitor(const Monitor& monitor);

}  // namespace gpuwarden::capture
